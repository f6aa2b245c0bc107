import assert from "node:assert/strict";
import { link, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { loadConfig } from "../../src/config/load/load.ts";
import { openFolder } from "../cli/kit.ts";
import { ENVIRONMENTS, PLANS, told } from "./folder.ts";

/** The mistakes of a configuration in the folder with these lines. */
async function toldIn(
  folder: string,
  lines: string,
  environments = ENVIRONMENTS,
  options: Parameters<typeof loadConfig>[2] = { forStart: true },
) {
  const file = join(folder, "tollgate.yaml");
  await writeFile(file, `${environments}${PLANS}${lines}\n`);
  return told(await loadConfig(file, {}, options));
}

describe("keys and stateFile overwrite no file of each other", () => {
  it("by a file that the gateway keeps next to one of them", async () => {
    await using folder = await openFolder();
    const pairs = [
      ["state.notes.json", "./state.json"],
      ["state.notes.json.tmp", "state.json"],
      ["./state.json.lock", "state.json"],
      ["state.json.tmp", "state.json"],
      ["keys.json", "keys.json.lock"],
      ["keys.json", "./keys.json.tmp"],
      ["state.history", "state.json\nhistory: 10d"],
    ];
    for (const [keys, stateFile] of pairs) {
      const lines = `keys: ${keys}\nstateFile: ${stateFile}`;
      assert.match((await toldIn(folder.path, lines)).join(), /^5:12: Cannot use /, lines);
    }
    const others = [
      ["state.notes", "state.json"],
      ["notes.json", "state.json"],
      ["state.history", "state.json"],
      ["data/state.notes.json", "state.json"],
    ];
    for (const [keys, stateFile] of others) {
      const lines = `keys: ${keys}\nstateFile: ${stateFile}`;
      assert.deepEqual(await toldIn(folder.path, lines), [], lines);
    }
  });

  it("by a default of the other one, which is told at the one that is given", async () => {
    await using folder = await openFolder();
    assert.deepEqual(await toldIn(folder.path, "keys: data/state.notes.json"), [
      `4:7: Cannot use keys and stateFile together: both would write ${join(folder.path, "data/state.notes.json")}; name other files`,
    ]);
  });

  it("by a hard link", async () => {
    await using folder = await openFolder();
    await writeFile(join(folder.path, "a.json"), "");
    await link(join(folder.path, "a.json"), join(folder.path, "b.json"));
    const [mistake = ""] = await toldIn(folder.path, "keys: a.json\nstateFile: b.json");
    assert.match(mistake, /^5:12: Cannot use the same file for keys and stateFile/);
  });

  it("by the lock of the file that a link leads to", async () => {
    await using folder = await openFolder();
    await mkdir(join(folder.path, "real"));
    await writeFile(join(folder.path, "real/keys.json"), "");
    await symlink("real/keys.json", join(folder.path, "keys.json"));
    const [mistake = ""] = await toldIn(
      folder.path,
      "keys: keys.json\nstateFile: real/keys.json.lock",
    );
    assert.match(mistake, /^5:12: Cannot use /);
    assert.deepEqual(await toldIn(folder.path, "keys: keys.json\nstateFile: keys.json.lock"), []);
  });

  it("by a link to what is not there yet, to which the gateway would write", async () => {
    await using folder = await openFolder();
    await symlink("real", join(folder.path, "link"));
    await symlink("link/state.json", join(folder.path, "keys.json"));
    await symlink("circle", join(folder.path, "circle"));
    for (const stateFile of ["real/state.json", "real/state.json.lock", "real/state"]) {
      const [mistake = ""] = await toldIn(folder.path, `keys: keys.json\nstateFile: ${stateFile}`);
      const is = stateFile === "real/state" ? /^$/ : /^5:12: Cannot use /;
      assert.match(mistake, is, stateFile);
    }
    assert.deepEqual(await toldIn(folder.path, "keys: circle\nstateFile: circle2"), []);
  });
});

describe("keys and stateFile are no file that the configuration reads", () => {
  const API = "openapi: 3.1.0\npaths: { /a: { get: { responses: {} } } }\n";
  const environments = ENVIRONMENTS.replace(" }\n", ", api: ./api.yaml }\n");

  it("such as itself, a description, a secret or a certificate", async () => {
    await using folder = await openFolder();
    const place = (name: string) => join(folder.path, name);
    await writeFile(place("api.yaml"), API);
    await writeFile(place("tag"), "tg");
    const secret = `storePrefix: ${"$"}{file:./tag}`;
    for (const name of ["tollgate.yaml", "api.yaml", "tag"]) {
      for (const key of ["keys", "stateFile"]) {
        const told = await toldIn(folder.path, `${key}: ./${name}\n${secret}`, environments);
        const column = key.length + 3;
        assert.deepEqual(told, [
          `4:${column}: Cannot use ${place(name)} as ${key}: the configuration reads it, or what is kept next to it, as another file, which the gateway would overwrite; name a file of its own`,
        ]);
      }
    }
    assert.deepEqual(await toldIn(folder.path, secret, environments), []);
    const tls = environments.replace("live,", "live, tls: { cert: ./a.pem, key: ./a.key },");
    const all = (await toldIn(folder.path, "stateFile: a.key", tls)).join("\n");
    assert.match(all, /Cannot use \S+\/a\.key as stateFile: the configuration reads it/);
  });

  it("nor does one of them overwrite such a file by what is kept next to it", async () => {
    await using folder = await openFolder();
    await writeFile(join(folder.path, "api.notes.json"), API);
    const described = environments.replace("api.yaml", "api.notes.json");
    const [mistake = ""] = await toldIn(folder.path, "stateFile: ./api.json", described);
    assert.match(
      mistake,
      /^4:12: Cannot use \S+\/api\.json as stateFile: the configuration reads /,
    );
  });

  it("but nothing is kept next to a stateFile that holds a copy of the records alone", async () => {
    await using folder = await openFolder();
    await writeFile(join(folder.path, "api.notes.json"), API);
    const described = environments.replace("api.yaml", "api.notes.json");
    const lines = "store: redis://127.0.0.1:1\nkeys: redis\nstateFile: ./api.json";
    assert.deepEqual(await toldIn(folder.path, lines, described), []);
  });

  it("but a stateFile that is not used may be anything, as before", async () => {
    await using folder = await openFolder();
    await writeFile(join(folder.path, "api.yaml"), API);
    const lines = "store: redis://127.0.0.1:1\nstateFile: ./api.yaml";
    assert.deepEqual(await toldIn(folder.path, lines, environments), []);
  });

  it("and a reload names none of them either", async () => {
    await using folder = await openFolder();
    await writeFile(join(folder.path, "state.json"), API);
    await writeFile(join(folder.path, "state.notes.json"), API);
    for (const name of ["state.json", "state.notes.json"]) {
      const described = environments.replace("api.yaml", name);
      const lines = "stateFile: state.json";
      const [mistake = "", ...others] = await toldIn(folder.path, lines, described, {});
      assert.match(
        mistake,
        /^4:12: Cannot use \S+\/state\.json as stateFile: the configuration reads/,
      );
      assert.deepEqual(others, []);
    }
  });

  it("but a reload judges no file that was opened at the start", async () => {
    await using folder = await openFolder();
    await mkdir(join(folder.path, "state.json"));
    assert.deepEqual(await toldIn(folder.path, "stateFile: state.json", ENVIRONMENTS, {}), []);
  });
});
