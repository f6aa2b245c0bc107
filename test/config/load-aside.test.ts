import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, test } from "vitest";

const LOAD = new URL("../../src/config/load/load-aside.ts", import.meta.url).href;
const FILE = new URL("../../config/tollgate.yaml", import.meta.url).pathname;
const SECONDS_30 = 30_000;

/** The value that a program of its own prints, which has `loadConfigAside` as `load`. */
function printed(program: string): unknown {
  const text = `
    const { loadConfigAside } = await import(${JSON.stringify(LOAD)});
    const load = () => loadConfigAside(${JSON.stringify(FILE)}, process.env);
    const why = ({ ok, mistakes }) => ok ? "read" : mistakes.map(({ message }) => message).join();
    const print = (value) => console.log(JSON.stringify(value));
    ${program}`;
  const flags = ["--input-type=module", "-e", text];
  const out = execFileSync(process.execPath, flags, { encoding: "utf8", timeout: SECONDS_30 });
  return JSON.parse(out);
}

describe("A configuration that is read in a thread of its own", () => {
  test("is refused, and the process lives on, where the system can start no further thread", () => {
    const message =
      "Cannot read the configuration: the system can start no further thread; raise its limit (TasksMax, pids.max or ulimit -u)";
    const told = printed(`
      const { execFileSync } = await import("node:child_process");
      execFileSync("prlimit", ["--pid", String(process.pid), "--nproc=1:1"]);
      if (process.getuid() === 0) process.setgroups([]), process.setgid(65534), process.setuid(65534);
      print(why(await load()));`);
    assert.equal(told, message);
  });

  test("is refused with the remedy where no further file can be opened, and read when one can", () => {
    const message =
      "Cannot read the configuration: too many files are open; raise their limit (ulimit -n), or lower limits.connections";
    const told = printed(`
      const { closeSync, openSync } = await import("node:fs");
      const open = [];
      try { for (;;) open.push(openSync("/dev/null")); } catch {}
      const full = why(await load());
      for (const file of open) closeSync(file);
      print([full, why(await load())]);`);
    assert.deepEqual(told, [message, "read"]);
  });

  test("that rests keeps no program from its end, and reads the next ones at a fraction of its start", () => {
    const tookMs = printed(`
      const took = [];
      for (let i = 0; i < 4; i++) {
        const startMs = performance.now();
        await load();
        took.push(performance.now() - startMs);
      }
      process.on("exit", () => print([...took, performance.now()]));
      const endMs = performance.now();
      process.once("beforeExit", () => took.push(performance.now() - endMs));`) as number[];
    const [first, ...further] = tookMs.slice(0, 4) as [number, ...number[]];
    assert.ok(Math.min(...further) < first / 3, tookMs.join());
    assert.ok(
      (tookMs[4] as number) < 4_900,
      "the thread rests for 5 s, and the program ends before",
    );
  });

  test("is read by another thread where the one that rests has ended", () => {
    const told = printed(`
      let thread;
      process.on("worker", (started) => void (thread = started));
      await load();
      await thread.terminate();
      const afterEnd = why(await load());
      thread.emit("error", new Error("lost"));
      print([afterEnd, why(await load())]);`);
    assert.deepEqual(told, ["read", "read"]);
  });

  test("by two at a time is read by both", () => {
    const told = printed(`print((await Promise.all([load(), load(), load()])).map(why));`);
    assert.deepEqual(told, ["read", "read", "read"]);
  });
});
