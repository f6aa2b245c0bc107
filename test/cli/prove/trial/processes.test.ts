import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import net, { connect } from "node:net";
import { join } from "node:path";
import { mock } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { it, vi } from "vitest";
import {
  type LogLine,
  startGatewayProcess,
  startPetsProcess,
  startRedis,
} from "../../../../src/cli/prove/trial/processes.ts";
import { isAlive } from "../../../support/is-alive.ts";
import { eventually } from "../../../support/poll.ts";
import { openFolder } from "../../kit.ts";

const MAIN = join(import.meta.dirname, "../../../../src/main.ts");

it("the pets of a proof end when they are told to, and need not be killed", async () => {
  const pets = await startPetsProcess([process.execPath, MAIN]);
  const elsewhere = pets.url.replace("127.0.0.1", "127.0.0.2");
  await assert.rejects(fetch(elsewhere), "they listen at one address of this machine alone");
  const response = await fetch(`${pets.url}/v1/pets`);
  assert.notDeepEqual(await response.json(), [], "the load asks for pets");
  const before = process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  await pets.stop();
  assert.deepEqual([pets.process.exitCode, pets.process.signalCode], [0, null]);
  const timers = process.getActiveResourcesInfo().filter((name) => name === "Timeout");
  assert.equal(timers.length, before, "none would hold up the end of the proof");
});

it("the pets of a proof end when they are told to also where they were stopped before", async () => {
  const pets = await startPetsProcess([process.execPath, MAIN]);
  pets.process.kill("SIGSTOP");
  await pets.stop();
  assert.deepEqual([pets.process.exitCode, pets.process.signalCode], [0, null]);
});

it("the pets of a proof that do not start are told with the last 2,000 characters that they said", async () => {
  await using folder = await openFolder();
  const program = join(folder.path, "pets.cjs");
  for (const [first, told] of [
    ["no room\\n", "no room\nat all"],
    ["x".repeat(3_000), `${"x".repeat(1_993)}at all`],
  ] as const) {
    const text = `process.stderr.write("${first}", () => setTimeout(() => process.stderr.write("at all\\n"), 100));`;
    await writeFile(program, text);
    await assert.rejects(startPetsProcess([process.execPath, program]), {
      message: `Cannot start the pets: ${told}`,
    });
  }
});

/** Starts this program in place of the pets or of a gateway of a proof. */
async function withProgram<T>(text: string, work: (self: [string, string]) => Promise<T>) {
  await using folder = await openFolder();
  const program = join(folder.path, "program.cjs");
  await writeFile(program, text);
  return await work([process.execPath, program]);
}

/** A clock that stands still, also for the timers that modules import by name. */
function stopClock() {
  mock.timers.enable({ apis: ["setTimeout"] });
  syncBuiltinESMExports();
  return {
    tick: (ms: number) => mock.timers.tick(ms),
    [Symbol.dispose]: () => {
      mock.timers.reset();
      syncBuiltinESMExports();
    },
  };
}

/** Resolves once all that can go on without a timer has done so. */
function settled(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

it("the pets of a proof that do not end when they are told to are killed five seconds later", async () => {
  const deaf = `process.on("SIGTERM", () => {}); setInterval(() => {}, 1_000);
    process.send({ listening: "http://127.0.0.1:1" });`;
  const pets = await withProgram(deaf, startPetsProcess);
  assert.equal(pets.url, "http://127.0.0.1:1");
  const kill = vi.spyOn(pets.process, "kill");
  const signals = () => kill.mock.calls.map(([signal]) => signal);
  using clock = stopClock();
  const stopped = pets.stop();
  clock.tick(4_999);
  assert.deepEqual(signals(), ["SIGCONT", "SIGTERM"]);
  clock.tick(1);
  await stopped;
  assert.deepEqual([signals().at(-1), pets.process.signalCode], ["SIGKILL", "SIGKILL"]);
});

it("the pets of a proof that are not ready in a minute are told, and end", async () => {
  const hasChild = () => process.getActiveResourcesInfo().includes("ProcessWrap");
  await eventually(() => !hasChild());
  using clock = stopClock();
  const started = withProgram("setInterval(() => {}, 1_000);", startPetsProcess);
  let reason = "";
  const told = started.catch((error: Error) => {
    reason = error.message;
  });
  while (!hasChild()) await settled();
  clock.tick(59_999);
  for (let turn = 0; turn < 10; turn++) await settled();
  assert.equal(reason, "");
  clock.tick(1);
  await told;
  assert.equal(reason, "Cannot start the pets: it was not ready in 60 s");
  assert.ok(!hasChild(), "they ended");
});

it("the last words of the pets of a proof are waited for a second, where what they started holds them", async () => {
  const heir = `const { spawn } = require("node:child_process");
    const silent = ["-e", "setTimeout(() => {}, 60_000)"];
    const { pid } = spawn(process.execPath, silent, { stdio: ["ignore", "ignore", "inherit"] });
    process.stderr.write("no room for " + pid, () => process.exit(1));`;
  const hasChild = () => process.getActiveResourcesInfo().includes("ProcessWrap");
  await eventually(() => !hasChild());
  using clock = stopClock();
  let reason = "";
  const told = withProgram(heir, startPetsProcess).catch((error: Error) => {
    reason = error.message;
  });
  for (const isThere of [true, false]) while (hasChild() !== isThere) await settled();
  for (const ms of [999, 1]) {
    for (let turn = 0; turn < 50; turn++) await settled();
    assert.equal(reason, "");
    clock.tick(ms);
  }
  // By far less than that lives.
  const startMs = performance.now();
  while (reason === "" && performance.now() - startMs < 20_000) await settled();
  const [, pid] = /^Cannot start the pets: no room for (\d+)$/.exec(reason) ?? [];
  assert.ok(pid !== undefined, reason);
  process.kill(Number(pid), "SIGKILL");
  await told;
});

it("the pets of a proof that cannot listen are told with their reason, and end", async () => {
  const failing = `setInterval(() => {}, 1_000);
    process.send({ failed: "no port, in process " + process.pid });`;
  const error = await withProgram(failing, startPetsProcess).then(
    () => assert.fail("they started"),
    (reason: Error) => reason,
  );
  const [, pid] = /^Cannot start the pets: no port, in process (\d+)$/.exec(error.message) ?? [];
  assert.ok(pid !== undefined, error.message);
  assert.equal(isAlive(Number(pid)), false);
});

it("a gateway of a proof that ends before it serves and says nothing is told", async () => {
  const started = withProgram("", (self) => startGatewayProcess(self, "x.yaml", () => {}));
  await assert.rejects(started, { message: "Cannot start a gateway: it ended at once" });
});

it("a gateway of a proof is heard line by line, however its lines were cut, and known by its addresses", async () => {
  const lines: LogLine[] = [];
  const serving = { msg: "serving", urls: { proof: "http://p" }, admin: "http://a" };
  const text = `const line = JSON.stringify(${JSON.stringify(serving)}) + "\\n";
    process.stdout.write('{"msg":"first"}\\n' + line.slice(0, 20));
    setTimeout(() => process.stdout.write(line.slice(20) + '{"msg":"last"}\\n'), 200);
    setInterval(() => {}, 1_000);`;
  const gateway = await withProgram(text, (self) => {
    return startGatewayProcess(self, "x.yaml", (line) => lines.push(line));
  });
  assert.deepEqual([gateway.url, gateway.adminUrl], ["http://p", "http://a"]);
  await eventually(() => assert.equal(lines.length, 3));
  assert.deepEqual(
    lines.map(({ msg }) => msg),
    ["first", "serving", "last"],
  );
  await gateway.stop();
});

it("the Redis of a proof is reached on loopback alone, and saves nothing", async () => {
  await using folder = await openFolder();
  const redis = await startRedis(folder.path);
  assert.ok(redis !== undefined);
  await eventually(() => !process.getActiveResourcesInfo().includes("TCPSocketWrap"));
  const client = connect(Number(new URL(redis.url).port), "127.0.0.1");
  let told = "";
  client.setEncoding("utf8").on("data", (text: string) => {
    told += text;
  });
  client.write("CONFIG GET bind\r\nCONFIG GET save\r\nCONFIG GET appendonly\r\nCONFIG GET dir\r\n");
  await eventually(() => assert.ok(told.includes(folder.path)));
  client.destroy();
  await redis.stop();
  const values = told.split("\r\n").filter((_, i) => i % 5 === 4);
  assert.deepEqual(values, ["127.0.0.1", "", "no", folder.path]);
});

it("a second proof on the machine has a Redis of its own", async () => {
  await using folder = await openFolder();
  const first = await startRedis(folder.path);
  try {
    const second = await startRedis(folder.path);
    await second?.stop();
    assert.notEqual(second?.url, first?.url);
  } finally {
    await first?.stop();
  }
});

it("the Redis of a proof that does not start is asked for no longer", async () => {
  await using folder = await openFolder();
  vi.stubEnv("PATH", folder.path);
  const asked = mock.method(net, "connect");
  syncBuiltinESMExports();
  try {
    assert.equal(await startRedis(folder.path), undefined);
    const before = asked.mock.callCount();
    await sleep(200);
    assert.ok(asked.mock.callCount() <= before + 1, "once more at most");
  } finally {
    asked.mock.restore();
    syncBuiltinESMExports();
    vi.unstubAllEnvs();
  }
});

it("the Redis of a proof is none where none is installed, and one that does not start is told", async () => {
  await using folder = await openFolder();
  vi.stubEnv("PATH", folder.path);
  try {
    assert.equal(await startRedis(folder.path), undefined);
    const program = join(folder.path, "redis-server");
    // Its reason may be read only after its end.
    const script = "#!/bin/sh\n(/bin/sleep 0.2; echo no room >&2) &\nexit 1\n";
    await writeFile(program, script, { mode: 0o755 });
    await assert.rejects(startRedis(folder.path), {
      message: "Cannot start redis-server: no room",
    });
  } finally {
    vi.unstubAllEnvs();
  }
});
