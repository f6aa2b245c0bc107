import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { PETS } from "../../support/gateway/pets-routes.ts";
import {
  type RunningProcess,
  runTollgate,
  startTollgate,
} from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { openAuthority } from "../../support/wire/certificates.ts";
import {
  configText,
  type Folder,
  jsonOf,
  openFolder,
  runVerb,
  type Settings,
  writeConfig,
} from "../kit.ts";

const MAIN = join(import.meta.dirname, "../../../src/main.ts");

async function serving(gateway: RunningProcess): Promise<string> {
  const { urls } = await gateway.line(({ msg }) => msg === "serving");
  return (urls as Record<string, string>).production ?? "";
}

async function issue(file: string): Promise<string> {
  const args = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
  return jsonOf<{ key: string }>(await runVerb([...args, "--config", file])).key;
}

describe("start refuses", () => {
  it("a broken configuration, with every mistake and 78, and nothing on stdout", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "broken.yaml");
    await writeFile(file, `${configText()}bogus: 1\nkeyPrefix: "No"\n`);
    const { code, stdout, stderr } = await runTollgate(["start", "--config", file]);
    assert.deepEqual({ code, stdout }, { code: 78, stdout: "" });
    assert.match(
      stderr,
      /^.*broken\.yaml:\d+:\d+: .*bogus.*\n.*broken\.yaml:\d+:\d+: .*keyPrefix.*\n$/,
    );
  });

  it("a folder, or a path below a file, as keys or stateFile, at their lines and with 78, as check does", async () => {
    await using folder = await openFolder();
    await mkdir(join(folder.path, "folder"));
    await writeFile(join(folder.path, "file"), "");
    const check = async (settings: Settings) => {
      const file = await writeConfig(folder, settings);
      const { status, err } = await runVerb(["check", "--config", file]);
      return { code: status, stderr: err };
    };
    const sound = { code: 0, stderr: "" };
    const unused = { store: "redis://127.0.0.1:1", stateFile: "folder" };
    assert.deepEqual(await check({ ...unused, keys: "none/yet.json" }), sound);
    const shared = await check({ ...unused, keys: "redis" });
    assert.match(shared.stderr, /:3:12: .*stateFile: it is a folder; name a file\n$/);
    const told = await check({ keys: "file/keys.json", stateFile: "folder" });
    const [keys, stateFile] = [join(folder.path, "file/keys.json"), join(folder.path, "folder")];
    const file = join(folder.path, "tollgate.yaml");
    const mistakes = [
      `${file}:2:7: Cannot use ${keys} as keys: a part of its path is no folder; check the path`,
      `${file}:3:12: Cannot use ${stateFile} as stateFile: it is a folder; name a file`,
    ];
    assert.deepEqual(told, { code: 78, stderr: `${mistakes.join("\n")}\n` });
    const { code, stderr } = await runTollgate(["start", "--config", file]);
    assert.deepEqual({ code, stderr }, told);
  });

  it("a port in use, in one line that names the port and the setting, with 1, after what the log has", async () => {
    await using folder = await openFolder();
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as { port: number };
    const settings: Record<string, object> = {
      "environments.production.listen": { production: port },
      "admin.listen": { admin: port },
    };
    for (const [setting, where] of Object.entries(settings)) {
      const file = await writeConfig(folder, { ...where, more: "trustedProxies: [0.0.0.0/0]" });
      const { code, stdout, stderr } = await runTollgate(["start", "--config", file]);
      assert.equal(code, 1);
      const warning = JSON.parse(stdout);
      assert.deepEqual([warning.msg, warning.file], ["config_warning", file]);
      assert.equal(typeof warning.line, "number");
      assert.match(stderr, /^[^\n]+\n$/);
      assert.ok(stderr.includes(`127.0.0.1:${port}`) && stderr.includes(setting), stderr);
    }
    taken.close();
  });
});

describe("a running gateway", () => {
  let folder: Folder;
  beforeAll(async () => {
    folder = await openFolder();
  });
  afterAll(() => folder[Symbol.asyncDispose]());

  it("prints JSON lines only, reloads on SIGHUP and on save, and keeps the old on a mistake", async () => {
    const file = await writeConfig(folder);
    await using gateway = startTollgate(["start", "--config", file]);
    await serving(gateway);
    const count = (fits: (line: Record<string, unknown>) => boolean) =>
      gateway.lines().filter(fits).length;
    const reloads = () => count(({ kind }) => kind === "config_reloaded");

    gateway.child.kill("SIGHUP");
    const { hash } = await gateway.line(({ kind }) => kind === "config_reloaded");
    const { config } = await gateway.line(({ msg }) => msg === "serving");
    assert.equal(config, hash, "nothing has changed");
    await writeFile(file, configText({ free: "{ minute: 7 }" }));
    await eventually(() => assert.equal(reloads(), 2));
    await writeFile(`${file}.new`, configText({ free: "{ minute: 8 }" }));
    await rename(`${file}.new`, file);
    await eventually(() => assert.equal(reloads(), 3));

    await writeFile(file, `${configText()}bogus: 1\n`);
    const { kind, why } = await gateway.line((line) => line.level === "error");
    assert.equal(kind, "config_refused");
    assert.match(String(why), /tollgate\.yaml:\d+:1: .*bogus/);
    assert.equal(reloads(), 3);
    const told = gateway.lines().filter(({ msg }) => msg === "reloading");
    const causes = new Set(told.map(({ because }) => because));
    assert.deepEqual([...causes], ["SIGHUP", "file saved"]);
    const { code, stdout, stderr } = await gateway.stop();
    assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
    for (const line of stdout.trimEnd().split("\n"))
      assert.equal(typeof JSON.parse(line), "object");
  });

  it("tells that its file can be read no more, before the next start fails", async () => {
    if (process.getuid?.() !== 0) return;
    await using own = await openFolder();
    const file = await writeConfig(own);
    for (const path of [own.path, file]) await chown(path, 12_345, 12_345);
    await using gateway = startTollgate(["start", "--config", file], { uid: 12_345 });
    await serving(gateway);
    await chmod(file, 0);
    const { because } = await gateway.line(({ msg }) => msg === "reloading");
    const { why } = await gateway.line(({ kind }) => kind === "config_refused");
    assert.match(`${because}: ${why}`, /^file missing: .*tollgate.yaml:1:1: Cannot read the conf/);
    await chmod(file, 0o600);
    await gateway.line(({ kind }) => kind === "config_reloaded");
  });

  it("takes a refused configuration when the file that only it names is mended or appears", async () => {
    await using folder = await openFolder(); // Nothing that it names is there yet.
    const file = await writeConfig(folder);
    const api = join(folder.path, "named-later.yaml");
    const secret = join(folder.path, "secrets/named-later");
    const ca = join(folder.path, "named-later.pem");
    using authority = openAuthority();
    await using gateway = startTollgate(["start", "--config", file]);
    await serving(gateway);
    const told = (kind: string) => gateway.lines().filter((line) => line.kind === kind).length;
    const description = await readFile(PETS, "utf8");
    const withApi = configText().replace(PETS, api);
    const withTls = configText().replace(
      "keyTag: live",
      `keyTag: live\n    upstreamTls: { ca: ${ca} }`,
    );
    const withSecret = configText({ more: `log: { level: "\${file:${secret}}" }\n` });

    await writeFile(api, "openapi: [\n");
    await writeFile(file, withApi);
    await eventually(() => assert.equal(told("config_refused"), 1));
    await writeFile(api, description);
    await eventually(() => assert.equal(told("config_reloaded"), 1));

    await writeFile(file, withTls);
    await eventually(() => assert.equal(told("config_refused"), 2));
    await writeFile(ca, authority.ca);
    await eventually(() => assert.equal(told("config_reloaded"), 2));

    await writeFile(file, withSecret);
    await eventually(() => assert.equal(told("config_refused"), 3));
    await mkdir(dirname(secret));
    await writeFile(secret, "debug");
    await eventually(() => assert.equal(told("config_reloaded"), 3));
  });

  it("drains on SIGTERM: what is under way is answered, and it ends with 0", async () => {
    const backend = await startTestUpstream();
    const file = await writeConfig(folder, { productionUpstream: backend.port });
    const key = await issue(file);
    await using gateway = startTollgate(["start", "--config", file]);
    const url = await serving(gateway);
    let answer = () => {};
    backend.answer(async (_seen, response) => {
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      response.end("late");
    });
    const asked = fetch(`${url}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });
    await eventually(() => assert.equal(backend.seen.length, 1));
    gateway.child.kill("SIGTERM");
    const draining = await gateway.line(({ msg }) => msg === "draining");
    assert.equal(draining.signal, "SIGTERM");
    answer();
    assert.equal(await (await asked).text(), "late");
    const { code } = await gateway.exited;
    assert.equal(code, 0);
    const { msg, time, afterMs } = gateway.lines().at(-1) ?? {};
    // The line is written a moment later than its time is taken.
    const mostMs = Number(time) - Number(draining.time) + 20;
    assert.ok(msg === "stopped" && Number(afterMs) >= 0 && Number(afterMs) <= mostMs, `${afterMs}`);
    assert.equal(gateway.lines().filter(({ msg }) => msg === "request").length, 1);
    await backend.close();
  });

  it("ends with 0 though nobody reads its log", async () => {
    const file = await writeConfig(folder);
    const child = spawn(process.execPath, [MAIN, "start", "--config", file], { stdio: "pipe" });
    const [first] = await once(child.stdout, "data");
    child.stdout.pause();
    const { urls } = JSON.parse(String(first).split("\n")[0] ?? "");
    // Two megabytes of log lines: far more than a pipe holds.
    for (let i = 0; i < 80; i++) {
      const path = "x".repeat(7_000);
      const asks = Array.from({ length: 8 }, () => fetch(`${urls.production}/v1/${path}`));
      for (const answer of each(await Promise.all(asks))) {
        assert.equal(answer.status, 401);
        await answer.arrayBuffer();
      }
    }
    child.kill("SIGTERM");
    const [code, signal] = await once(child, "exit");
    assert.deepEqual({ code, signal }, { code: 0, signal: null });
  });

  it("never tells a key: not on stdout, not on stderr, not in its files", async () => {
    const file = await writeConfig(folder);
    const key = await issue(file);
    await using gateway = startTollgate(["start", "--config", file]);
    const url = await serving(gateway);
    await fetch(`${url}/v1/pets?api_key=${key}`, { headers: { Authorization: `Bearer ${key}` } });
    const { stdout, stderr } = await gateway.stop();
    const data = join(folder.path, "data");
    const stored = await Promise.all(
      ["keys.json", "state.json"].map((name) => readFile(join(data, name), "utf8")),
    );
    for (const text of [stdout, stderr, ...stored]) assert.ok(!text.includes(key.slice(10)));
  });
});
