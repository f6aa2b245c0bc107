// biome-ignore-all lint/suspicious/noTemplateCurlyInString: a configuration holds references
import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { loadConfig } from "../../src/config/load/load.ts";
import { loadPlans } from "../../src/config/load/load-plans.ts";
import { reloadBlockers } from "../../src/config/reload.ts";
import { openFolder } from "../cli/kit.ts";
import { ENVIRONMENTS, loadFiles, loadLines, PLANS, told } from "./folder.ts";

it("one file for keys and stateFile is found, relative, absolute and by a link", async () => {
  await using folder = await openFolder();
  await mkdir(join(folder.path, "data"));
  await symlink("data", join(folder.path, "link"));
  const file = join(folder.path, "tollgate.yaml");
  const toldOf = async (stateFile: string) => {
    await writeFile(file, `${ENVIRONMENTS}${PLANS}keys: data/a.json\nstateFile: ${stateFile}\n`);
    return told(await loadConfig(file, {}));
  };
  for (const same of ["data/../data/a.json", join(folder.path, "data/a.json"), "link/a.json"]) {
    assert.match((await toldOf(same)).join(), /the same file for keys and stateFile/, same);
  }
  for (const other of ["data/b.json", "a.json", "/nowhere/data/a.json"]) {
    assert.deepEqual(await toldOf(other), [], other);
  }
});

it("a variable in a rule for requests changes the hash", async () => {
  const hashOf = async (value: string) => {
    const plans = 'plans: { free: { minute: "${F}" } }\nlimits: { bodyBytes: "${B}" }';
    return (await loadLines(plans, { F: value, B: "1MiB" })).hash;
  };
  assert.notEqual(await hashOf("60"), await hashOf("9"));
  assert.equal(await hashOf("60"), await hashOf("60"));
  const limits = async (B: string) => {
    return (await loadLines('limits: { bodyBytes: "${B}" }', { B })).hash;
  };
  assert.notEqual(await limits("1MiB"), await limits("2MiB"));
});

it("names of plans are as they are written, whatever number they could be", async () => {
  const { plans } = await loadLines("plans: { 1.10: { minute: 1 }, 1e3: custom, 0x10: custom }");
  assert.deepEqual([...plans.keys()], ["1.10", "1e3", "0x10"]);
});

it("a custom plan may be made so by a variable", async () => {
  const { plans } = await loadLines('plans: { free: { custom: "${CU:-true}" } }');
  assert.equal(plans.get("free"), "custom");
  const text = `${ENVIRONMENTS}plans: { free: { custom: "\${CU:-false}" } }`;
  assert.equal(told(await loadFiles({ "tollgate.yaml": text })).length, 1);
});

it("errorsUrl takes no query, as the kinds of problems are below its path", async () => {
  for (const [url, count] of [
    ["https://x.test/a/", 0],
    ["https://x.test/?a=b", 1],
  ] as const) {
    const text = `${ENVIRONMENTS}${PLANS}errors: problem\nerrorsUrl: "${url}"\n`;
    assert.equal(told(await loadFiles({ "tollgate.yaml": text })).length, count, url);
  }
});

it("a slash at the end of a store is no change of its password, and another password is", async () => {
  const storeOf = (store: string) => loadLines(`store: "${store}"`);
  const from = await storeOf("redis://u:p@h:6379");
  const blockers = async (store: string) => {
    const change = { from, to: { ...from, store: (await storeOf(store)).store } };
    return reloadBlockers(change, { keys: [], accounts: [] }, 0);
  };
  assert.deepEqual(await blockers("redis://u:p@h:6379/"), []);
  assert.match((await blockers("redis://u:q@h:6379/")).join(), /the password of store/);
});

it("plans for a trial are judged as those of a configuration, files that they name too", async () => {
  await using folder = await openFolder();
  const file = join(folder.path, "new.yaml");
  await writeFile(join(folder.path, "m.txt"), "7\n");
  const toldOf = async (plans: string) => {
    await writeFile(file, `plans: ${plans}\n`);
    const loaded = await loadPlans(file, {});
    return loaded.ok ? [] : loaded.mistakes.map(({ message }) => message);
  };
  assert.match((await toldOf("{}")).join(), /Cannot read plans as a map of at least one plan/);
  const above = "{ free: { month: 5, included: { month: 6 } } }";
  assert.match((await toldOf(above)).join(), /Cannot include 6 units of a month/);
  assert.deepEqual(await toldOf("{ free: { month: 6, included: { month: 6 } } }"), []);
  assert.deepEqual(await toldOf('{ free: { minute: "${file:m.txt}" } }'), []);
});
