import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import {
  type RunningProcess,
  runTollgate,
  startTollgate,
} from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { type Folder, freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const run = promisify(execFile);
const MAIN = join(import.meta.dirname, "../../../src/main.ts");

/** A configuration as the shipped one, on free ports: five listeners, all of them known. */
async function demoConfig(folder: Folder) {
  const [production, staging, productionUpstream, stagingUpstream, admin] = (await freePorts(
    5,
  )) as [number, number, number, number, number];
  const ports = { production, staging, productionUpstream, stagingUpstream, admin };
  return { file: await writeConfig(folder, ports), ports };
}

async function startDemo(file: string): Promise<RunningProcess> {
  const demo = startTollgate(["demo", "--config", file]);
  await demo.line(({ msg }) => msg === "serving");
  return demo;
}

/** The processes that a process has started and that still run (Linux). */
async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  return text.trim().split(" ").filter(Boolean).map(Number);
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const allGone = (pids: readonly number[]) =>
  eventually(() => assert.deepEqual(pids.filter(runs), []), { withinMs: 60_000 });

describe("npm start", () => {
  it("issues a key per plan, prints curl lines that work, and knows all of it on the next start", async () => {
    await using folder = await openFolder();
    const { file } = await demoConfig(folder);
    await using demo = await startDemo(file);
    const screen = demo.stdout();
    const lines = [...screen.matchAll(/^ *(curl .*)$/gm)].map(([, line = ""]) => line);
    assert.equal(lines.length, 5);
    const limits: string[] = [];
    for (const line of lines) {
      const { stdout } = await run("sh", ["-c", `${line} -s`]);
      assert.match(stdout, /^HTTP\/1\.1 200 OK\r\n/);
      limits.push(/^X-RateLimit-Limit: (\d+)/im.exec(stdout)?.[1] ?? "");
      const pets = JSON.parse(stdout.split("\r\n\r\n")[1] ?? "") as { name: string }[];
      assert.ok(pets.length > 0, "there are animals to begin with");
    }
    assert.deepEqual(limits, ["60", "300", "1000", "5000", "60"]);
    const line = await demo.line(({ msg }) => msg === "request");
    assert.equal(line.charged, 1);
    assert.ok(screen.indexOf("Tollgate is up") < screen.indexOf('"msg":"serving"'));
    assert.match(screen, /^production, enterprise \(5000 a minute, 500000 a day\)$/m);
    assert.match(screen, new RegExp(`^ {2}data +${folder.path}/data  `, "m"));

    const keys = [...screen.matchAll(/Bearer (pets_\w+)/g)].map(([, key = ""]) => key);
    const stored = await readFile(join(folder.path, "data/keys.json"), "utf8");
    for (const key of each(keys)) assert.ok(!stored.includes(key.slice(10)));

    const children = await childrenOf(demo.pid);
    assert.equal(children.length, 2);
    demo.child.kill("SIGINT");
    const { code, stderr } = await demo.exited;
    assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
    assert.deepEqual(children.filter(runs), []);

    await using again = await startDemo(file);
    assert.doesNotMatch(again.stdout(), /pets_(live|test)_/);
    assert.match(again.stdout(), /keys create --env production --plan free/);
    const { stdout } = await run("sh", ["-c", `${lines[0]} -s`]);
    assert.match(stdout, /^X-RateLimit-Remaining: \d+/im);
    const listed = jsonOf<{ id: string; name: string }[]>(
      await runVerb(["keys", "list", "--json", "--config", file]),
    );
    const names = ["free", "pro", "business", "enterprise", "free"].map((plan) => `demo ${plan}`);
    assert.deepEqual(
      listed.map(({ name }) => name),
      names,
    );
    const id = listed[0]?.id ?? "";
    const usage = await runVerb(["usage", id, "--json", "--config", file]);
    const day = jsonOf<{ windows: { window: string; used: number }[] }>(usage).windows[1];
    assert.deepEqual({ window: day?.window, used: day?.used }, { window: "day", used: 2 });
    assert.equal((await again.stop()).code, 0);
  });

  it("leaves no process behind when it is killed, or sent SIGTERM, or the whole group SIGINT twice", async () => {
    await using folder = await openFolder();
    const { file } = await demoConfig(folder);
    await using killed = await startDemo(file);
    const orphans = await childrenOf(killed.pid);
    await killed.kill();
    await allGone(orphans);

    await using ended = await startDemo(file);
    const children = await childrenOf(ended.pid);
    assert.equal((await ended.stop()).code, 0);
    assert.deepEqual(children.filter(runs), []);

    // Ctrl-C under npm: the terminal tells the whole group, and npm tells its child once more.
    await using interrupted = await startDemo(file);
    const group = await childrenOf(interrupted.pid);
    for (const pid of [...group, interrupted.pid]) process.kill(pid, "SIGINT");
    interrupted.child.kill("SIGINT");
    assert.equal((await interrupted.exited).code, 0);
    assert.deepEqual(group.filter(runs), []);
  });

  it("ends when the shell that npm put in between is gone, and tells nobody", async () => {
    await using folder = await openFolder();
    const { file } = await demoConfig(folder);
    const command = `"${process.execPath}" "${MAIN}" demo --config "${file}"; true`;
    const { PATH = "", NODE_COMPILE_CACHE = "" } = process.env;
    const env = { PATH, NODE_COMPILE_CACHE, npm_lifecycle_event: "start" };
    const shell = spawn("sh", ["-c", command], { env, stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    shell.stdout.on("data", (piece) => {
      said += piece;
    });
    await eventually(() => assert.match(said, /"msg":"serving"/), { withinMs: 60_000 });
    const [demo = 0] = await childrenOf(shell.pid ?? 0);
    const all = [demo, ...(await childrenOf(demo))];
    assert.equal(all.length, 3);
    shell.kill("SIGTERM");
    await allGone(all);
    assert.match(said, /"msg":"draining"/);
  });

  it("says in one line which port and setting is in use, with 1, and leaves nothing", async () => {
    await using folder = await openFolder();
    const { file, ports } = await demoConfig(folder);
    const settings = {
      productionUpstream: "environments.production.upstreams",
      staging: "environments.staging.listen",
      admin: "admin.listen",
    } as const;
    for (const [name, setting] of Object.entries(settings)) {
      const port = ports[name as keyof typeof settings];
      const taken = createServer().listen(port, "127.0.0.1");
      await once(taken, "listening");
      const { code, stdout, stderr } = await runTollgate(["demo", "--config", file]);
      taken.close();
      await once(taken, "close");
      assert.deepEqual({ code, stdout }, { code: 1, stdout: "" });
      assert.match(stderr, /^[^\n]+in use[^\n]+\n$/);
      assert.ok(stderr.includes(String(port)) && stderr.includes(setting), stderr);
    }
    const left = await runVerb(["keys", "list", "--json", "--config", file]);
    assert.deepEqual(jsonOf(left), [], "keys that nobody has seen");
    const accounts = await runVerb(["accounts", "list", "--json", "--config", file]);
    assert.deepEqual(jsonOf(accounts), [], "nor their accounts");
    await using demo = await startDemo(file);
    assert.match(demo.stdout(), /Demo keys/, "every port is free again");
  });

  it("is on the embedded store whatever REDIS_URL says, with pets on this machine and most keys for production", async () => {
    await using folder = await openFolder();
    const [port = 0, ...upstreams] = await freePorts(3);
    const [productionUpstream = 0, stagingUpstream = 0] = upstreams;
    const store = `$${"{REDIS_URL:-memory}"}`;
    const file = await writeConfig(folder, { store, productionUpstream, stagingUpstream });
    const env = { REDIS_URL: `redis://127.0.0.1:${port}` };
    // Production is not the first here, and staging has its backends on another machine or over TLS.
    const text = (await readFile(file, "utf8"))
      .replace(/( {2}production:\n(?: {4}.*\n)+)( {2}staging:\n(?: {4}.*\n)+)/, "$2$1")
      .replace(
        `"http://127.0.0.1:${stagingUpstream}"`,
        '"http://192.0.2.1:9", "https://127.0.0.1:9"',
      );
    await writeFile(file, text);
    await using demo = startTollgate(["demo", "--config", file], { env });
    await demo.line(({ msg }) => msg === "serving");
    const keys = demo.stdout().match(/^(?:production|staging), \w+/gm);
    const plans = ["free", "pro", "business", "enterprise"].map((plan) => `production, ${plan}`);
    assert.deepEqual(keys, ["staging, free", ...plans]);
    assert.equal((await childrenOf(demo.pid)).length, 1);
    assert.equal((await demo.stop()).stderr, "");
    assert.match(await readFile(join(folder.path, "data/state.json"), "utf8"), /^\{/);
  });
});

describe("npm start with an upstream", () => {
  it("at the usual port of HTTP, or at an address of IPv6, starts its pets there, whatever the names of environments and plans", async () => {
    await using folder = await openFolder();
    const [port = 0, stagingUpstream = 0] = await freePorts(2);
    const file = await writeConfig(folder, { stagingUpstream });
    // The first environment has the most keys where none is called production.
    const text = (await readFile(file, "utf8"))
      .replace(/^ {2}production:/m, "  main:")
      .replace(/^ {2}free:.*\n/m, "");
    let key: string | undefined;
    // One of the sixteen million addresses of this machine, at which nothing else listens.
    const host = `127.${[1, 2, 3].map(() => 1 + Math.floor(Math.random() * 254)).join(".")}`;
    for (const [upstream, listen] of [
      [`http://${host}`, `${host}:80`],
      [`http://[::1]:${port}`, `[::1]:${port}`],
    ] as const) {
      await writeFile(file, text.replace(/upstreams: .*/, `upstreams: ["${upstream}"]`));
      await using demo = startTollgate(["demo", "--config", file]);
      // Where others than root may not listen there, the message names the same place.
      await demo.says(/"msg":"serving"|Cannot start the pets/, 60_000);
      const said = `${demo.stdout()}${demo.stderr()}`;
      if (said.includes("Cannot start")) assert.ok(said.includes(`pets at ${listen} (`), said);
      else {
        const url = /^ *main +(http:\S+)/m.exec(said)?.[1];
        const keys = said.match(/^(?:main|staging), \w+/gm);
        const issued = ["main, pro", "main, business", "main, enterprise", "staging, pro"];
        assert.deepEqual(keys, key === undefined ? issued : null);
        key ??= /Bearer (pets_live_\w+)/.exec(said)?.[1];
        const headers = { Authorization: `Bearer ${key}` };
        assert.equal((await fetch(`${url}/pets`, { headers })).status, 200);
      }
    }
  });
});

describe("tollgate pets", () => {
  it("leaves signals to the process that started it over a channel, and ends with the channel", async () => {
    const args = [MAIN, "pets", "--listen", "127.0.0.1:0"];
    const pets = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    const [{ listening: url }] = (await once(pets, "message")) as [{ listening: string }];
    pets.kill("SIGTERM");
    pets.kill("SIGINT");
    for (let i = 0; i < 3; i++) assert.equal((await fetch(`${url}/v1/pets`)).status, 200);
    pets.disconnect();
    assert.deepEqual(await once(pets, "exit"), [0, null]);
  });

  it("serves until SIGTERM, keeps its animals, and makes the folder of its data", async () => {
    await using folder = await openFolder();
    const data = join(folder.path, "new/pets.db");
    const args = ["pets", "--listen", "127.0.0.1:0", "--data", data];
    for (const expected of [0, 1]) {
      await using pets = startTollgate(args);
      await pets.says(/Pets at http/);
      const url = /http\S+/.exec(pets.stdout())?.[0] ?? "";
      assert.equal(((await (await fetch(url)).json()) as unknown[]).length, expected);
      const headers = { "Content-Type": "application/json" };
      const body = '{"name":"Ada","categoryId":1}';
      assert.equal((await fetch(url, { method: "POST", headers, body })).status, 201);
      assert.equal((await pets.stop()).code, 0);
    }
  });

  it("says in one line when its port is in use, with 1", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as { port: number };
    const listen = `127.0.0.1:${port}`;
    const { code, stdout, stderr } = await runTollgate(["pets", "--listen", listen]);
    taken.close();
    assert.deepEqual({ code, stdout }, { code: 1, stdout: "" });
    assert.match(
      stderr,
      new RegExp(`^Cannot serve pets at ${listen} \\(--listen\\): .*in use.*\\n$`),
    );
  });
});
