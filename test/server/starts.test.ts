import assert from "node:assert/strict";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { type Folder, freePorts, openFolder, runVerb, writeConfig } from "../cli/kit.ts";
import { type RunningProcess, startTollgate } from "../support/gateway/processes.ts";
import { isAlive } from "../support/is-alive.ts";
import { eventually } from "../support/poll.ts";

let folder: Folder;
let file: string;
beforeEach(async () => {
  folder = await openFolder();
  const [production, staging, productionUpstream, stagingUpstream, admin] = (await freePorts(
    5,
  )) as [number, number, number, number, number];
  const ports = { production, staging, productionUpstream, stagingUpstream, admin };
  file = await writeConfig(folder, ports);
});
afterEach(() => folder[Symbol.asyncDispose]());

/** Waits until the gate is there: at the configuration, or before the first of its sockets is open. */
const WAITS = `
  import { existsSync, writeFileSync } from "node:fs";
  import fs from "node:fs/promises";
  import { syncBuiltinESMExports } from "node:module";
  import net from "node:net";
  const { GATE, AT } = process.env;
  const gate = async () => {
    writeFileSync(GATE + ".here", "");
    while (!existsSync(GATE)) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const { open } = fs;
  fs.open = async (path, ...more) => {
    if (AT === "read" && String(path).endsWith("tollgate.yaml")) await gate();
    return open(path, ...more);
  };
  const { listen } = net.Server.prototype;
  net.Server.prototype.listen = function (...args) {
    const is = process.argv[2] === "pets" ? "pets" : "listen";
    if (AT === is) gate().then(() => listen.apply(this, args));
    else listen.apply(this, args);
    return this;
  };
  syncBuiltinESMExports();
`;

/** A start that has come to a point, and goes on from there when it is told. */
async function startUpTo(at: "read" | "pets" | "listen", verb = "start") {
  const gate = join(folder.path, "gate");
  await Promise.all([rm(gate, { force: true }), rm(`${gate}.here`, { force: true })]);
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(WAITS)}`;
  const env = { NODE_OPTIONS, GATE: gate, AT: at };
  const gateway = startTollgate([verb, "--config", file], { env });
  await eventually(() => readFile(`${gate}.here`), { withinMs: 30_000 });
  return { gateway, goOn: () => writeFile(gate, "") };
}

const names = (gateway: RunningProcess) => gateway.lines().map(({ msg }) => msg);

describe("2.4 SIGTERM, SIGHUP, a save during the start: a gateway that starts", () => {
  it("and is told to end while it reads its configuration ends with 0, and says so", async () => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      const { gateway } = await startUpTo("read");
      await using _ = gateway;
      gateway.child.kill(signal);
      const { code, stderr } = await gateway.exited;
      assert.deepEqual([code, stderr, names(gateway)], [0, "", ["draining", "stopped"]]);
    }
  });

  it("and is told to reload while it reads its configuration reloads once it serves", async () => {
    const { gateway, goOn } = await startUpTo("read");
    await using _ = gateway;
    gateway.child.kill("SIGHUP");
    await goOn();
    await gateway.line(({ kind }) => kind === "config_reloaded");
    const told = names(gateway);
    assert.ok(told.indexOf("reloading") > told.indexOf("serving"), `${told}`);
  });

  it("takes what is saved after it has read it once it serves", async () => {
    const { gateway, goOn } = await startUpTo("pets", "demo");
    await using _ = gateway;
    const text = await readFile(file, "utf8");
    await writeFile(file, `${text}\n# saved\n`);
    await goOn();
    const { config, counting } = await gateway.line(({ msg }) => msg === "serving");
    const told = await gateway.line(({ kind }) => kind === "config_reloaded");
    assert.notEqual(told.hash, config);
    assert.deepEqual([told.hashBefore, told.countingBefore], [config, counting]);
    assert.match(String(counting), /^[0-9a-f]{16}$/);
  });

  it("and is ended at once tells the time since the signal", async () => {
    const { gateway } = await startUpTo("listen");
    await using _ = gateway;
    const startMs = performance.now();
    await eventually(() => performance.now() > startMs + 1_000);
    gateway.child.kill("SIGTERM");
    await gateway.line(({ msg }) => msg === "draining");
    const drainMs = performance.now();
    gateway.child.kill("SIGINT");
    assert.equal((await gateway.exited).code, 130);
    const { afterMs } = await gateway.line(({ msg }) => msg === "stopped");
    const sinceMs = performance.now() - drainMs;
    assert.ok(Number(afterMs) < sinceMs + 200, `${afterMs} ms of ${sinceMs} ms`);
  });
});

it("npm start that is ended before it has shown its demo keys leaves none behind", async () => {
  for (const isTwice of [false, true]) {
    const { gateway, goOn } = await startUpTo("listen", "demo");
    await using _ = gateway;
    const ids = async () => {
      const { out } = await runVerb(["keys", "list", "--json", "--config", file]);
      return (JSON.parse(out) as { id: string }[]).length;
    };
    assert.equal(await ids(), 5);
    gateway.child.kill("SIGINT");
    await gateway.line(({ msg }) => msg === "draining");
    if (isTwice) gateway.child.kill("SIGTERM");
    else await goOn();
    assert.equal((await gateway.exited).code, isTwice ? 143 : 0);
    assert.equal(await ids(), 0);
  }
});

it("2.4 SIGUSR1, SIGUSR2: the one opens no debugger, the other ends nothing", async () => {
  await using gateway = startTollgate(["start", "--config", file]);
  await gateway.line(({ msg }) => msg === "serving");
  gateway.child.kill("SIGUSR2");
  gateway.child.kill("SIGUSR1");
  gateway.child.kill("SIGHUP");
  await gateway.line(({ kind }) => kind === "config_reloaded");
  assert.ok(isAlive(gateway.pid));
  const { code, stderr } = await gateway.stop();
  assert.deepEqual([code, stderr], [0, ""]);
});

it("a file that is given by a relative name is read in the folder that took the place of its own", async () => {
  const [name, before] = [join("cfg", "tollgate.yaml"), await readFile(file, "utf8")];
  for (const release of ["now", "next"]) {
    await mkdir(join(folder.path, release, "cfg"), { recursive: true });
    await writeFile(join(folder.path, release, name), before);
  }
  await writeFile(join(folder.path, "next", name), `${before}\nplams: 1\n`);
  const cwd = join(folder.path, "now");
  await using gateway = startTollgate(["start", "--config", name], { cwd });
  await gateway.line(({ msg }) => msg === "serving");
  await rename(cwd, join(folder.path, "old"));
  await rename(join(folder.path, "next"), cwd);
  const refused = await gateway.line(({ kind }) => String(kind).startsWith("config_re"));
  assert.match(String(refused.why), /^cfg\/tollgate\.yaml:\d+:1: .*plams/);
  await rm(join(folder.path, "old"), { recursive: true });
  await writeFile(join(cwd, name), before);
  await gateway.line(({ kind }) => kind === "config_reloaded");
});
