import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, onTestFinished, vi } from "vitest";
import { LogPipe, openLogPipe } from "../../../src/server/process/log-pipe.ts";
import { openFolder } from "../../cli/kit.ts";
import { eventually } from "../../support/poll.ts";

const SOURCE = join(import.meta.dirname, "../../../src/server/process/log-pipe.ts");

/** A process that writes lines to its stdout as the code says, and tells results on stderr. */
function startWriter(code: string) {
  const text = `
    import { LogPipe, openLogPipe } from ${JSON.stringify(SOURCE)};
    const pipe = openLogPipe(1);
    const tell = (value) => process.stderr.write(JSON.stringify(value) + "\\n");
    ${code}`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", text]);
  let told = "";
  child.stderr.setEncoding("utf8").on("data", (piece) => {
    told += piece;
  });
  return { child, told: () => told };
}

describe("the log pipe", () => {
  it("writes every line to a file, whole and in order", async () => {
    await using folder = await openFolder();
    const path = join(folder.path, "log");
    const fd = openSync(path, "w");
    const pipe = openLogPipe(fd);
    const lines = Array.from(
      { length: 5_000 },
      (_, i) => `{"line":${i},"text":"naïve ${"☕".repeat(99)}"}\n`,
    );
    for (const line of lines) pipe.write(line);
    assert.equal(await pipe.flush(5_000), true);
    assert.equal(readFileSync(path, "utf8"), lines.join(""));
    assert.equal(pipe.dropped(), 0);
    closeSync(fd);
  });

  it("sends a single line by itself, without more to come", async () => {
    await using folder = await openFolder();
    const path = join(folder.path, "log");
    const fd = openSync(path, "w");
    openLogPipe(fd).write("one\n");
    await eventually(() => assert.equal(readFileSync(path, "utf8"), "one\n"));
    closeSync(fd);
  });

  it("writes a line within 200 ms, though none comes after it", () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      let text = "";
      const pipe = new LogPipe({
        blocks: false,
        write: (chunk, done) => {
          text += chunk.toString();
          done(null, chunk.length);
        },
      });
      for (const line of ["one\n", "two\n"]) {
        pipe.write(line);
        vi.advanceTimersByTime(200);
        assert.ok(text.endsWith(line), text);
      }
    } finally {
      vi.useRealTimers();
    }
  });

  it("loses nothing on a terminal that is slow for a while", async () => {
    const slow = ["EAGAIN", "EINTR", "EAGAIN"];
    let text = "";
    const pipe = new LogPipe({
      blocks: true,
      write: (chunk, done) => {
        const code = slow.shift();
        if (code === undefined) text += chunk.toString();
        const error = code === undefined ? null : Object.assign(new Error(code), { code });
        setImmediate(() => done(error, error === null ? chunk.length : 0));
      },
    });
    pipe.write("one\n");
    assert.equal(await pipe.flush(60_000), true);
    assert.deepEqual([text, pipe.dropped(), pipe.trouble()], ["one\n", 0, undefined]);
  });

  it("tries a terminal that is slow again after 100 ms", () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      let tries = 0;
      const slow = Object.assign(new Error("slow"), { code: "EAGAIN" });
      const write = (_: Buffer, done: (error: Error | null, written: number) => void) => {
        tries += 1;
        done(tries === 1 ? slow : null, "one\n".length);
      };
      void new LogPipe({ blocks: true, write }).write("one\n");
      vi.advanceTimersByTime(50 + 99);
      assert.equal(tries, 1);
      vi.advanceTimersByTime(1);
      assert.equal(tries, 2);
    } finally {
      vi.useRealTimers();
    }
  });

  it("with a reader that does not read: keeps at most 8 MiB, counts what it drops, and can exit", async () => {
    const { child, told } = startWriter(`
      const line = "x".repeat(1023) + "\\n";
      for (let i = 0; i < 10 * 1024; i++) pipe.write(line);
      const flushed = await pipe.flush(50);
      tell({ flushed, dropped: pipe.dropped(), holdsExit: pipe.holdsExit });
      process.exit(7);`);
    child.stdout.pause();
    const [code] = await once(child, "exit");
    assert.equal(code, 7);
    const { dropped, ...others } = JSON.parse(told());
    assert.deepEqual(others, { flushed: false, holdsExit: false });
    assert.equal(dropped, 2 * 1024);
  });

  it("says how many lines were dropped once the reader reads again", async () => {
    const { child, told } = startWriter(`
      const line = "x".repeat(1023) + "\\n";
      for (let i = 0; i < 9 * 1024; i++) pipe.write(line);
      tell(pipe.dropped());
      await pipe.flush(20_000);`);
    child.stdout.pause();
    await eventually(() => assert.match(told(), /\n/));
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (piece) => {
      text += piece;
    });
    child.stdout.resume();
    await once(child, "close");
    const notes = text.split("\n").filter((line) => line.startsWith("{"));
    assert.deepEqual(
      notes.map((note) => JSON.parse(note).dropped),
      [Number(told())],
    );
    assert.equal(text.split("\n").filter((line) => line.startsWith("x")).length, 8 * 1024);
  });

  it("tells once of a reader that takes a little and stops again, until it has taken all", () => {
    const taken: (() => void)[] = [];
    const told: string[] = [];
    const write = (chunk: Buffer, done: (error: null, written: number) => void) => {
      taken.push(() => done(null, chunk.length));
    };
    const pipe = new LogPipe({ blocks: false, write }, (text) => told.push(text));
    const line = `${"x".repeat(1023)}\n`;
    for (let i = 0; i < 9 * 1024; i++) pipe.write(line);
    const trouble = "lines of the log are dropped: its reader does not read";
    for (let i = 0; i < 3; i++) {
      assert.equal(pipe.trouble(), trouble);
      taken.shift()?.();
    }
    while (taken.length > 0) taken.shift()?.();
    assert.deepEqual([pipe.trouble(), pipe.dropped(), told.length], [undefined, 1024, 1]);
  });

  it("gives a reader that is behind every line, whole and in order", async () => {
    const { child } = startWriter(`
      for (let i = 0; i < 60_000; i++) {
        pipe.write("line " + String(i).padStart(90, "0") + "\\n");
        if (i % 500 === 0) await new Promise(setImmediate);
        if (i === 50_000) tell("ahead");
      }
      await pipe.flush(60_000);
      process.exit(pipe.dropped());`);
    child.stdout.pause();
    await once(child.stderr, "data");
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (piece) => {
      text += piece;
    });
    child.stdout.resume();
    const [code] = await once(child, "close");
    assert.equal(code, 0);
    const lines = Array.from({ length: 60_000 }, (_, i) => `line ${String(i).padStart(90, "0")}\n`);
    assert.ok(text === lines.join(""), "a line is missing, cut or in another place");
  });

  it("with a closed reader: goes on, and counts every line", async () => {
    const { child, told } = startWriter(`
      process.stdin.once("data", async () => {
        for (let i = 0; i < 100; i++) pipe.write("line\\n");
        await pipe.flush(5_000);
        pipe.write("late\\n");
        tell({ dropped: pipe.dropped(), trouble: pipe.trouble() });
        process.exit(0);
      });`);
    child.stdout.destroy();
    child.stdin.write("go");
    const [code] = await once(child, "exit");
    assert.equal(code, 0);
    const trouble = "lines of the log are dropped: EPIPE, it is closed";
    assert.deepEqual(JSON.parse(told()), { dropped: 101, trouble });
  });

  it("with a full disk: goes on, counts what it cannot write, tells it once, and can exit", async () => {
    const fd = openSync("/dev/full", "w");
    const told: string[] = [];
    const pipe = openLogPipe(fd, (text) => told.push(text));
    const startMs = performance.now();
    pipe.write("line\n");
    // Before the disk can be asked a second time, however long this process stands still.
    assert.equal(await pipe.flush(0), false);
    pipe.write("line that waits behind it\n");
    assert.deepEqual([pipe.dropped(), pipe.trouble()], [0, undefined]);
    await eventually(() => assert.equal(pipe.dropped(), 2));
    assert.ok(performance.now() - startMs > 990, "it is kept for a second");
    await eventually(() => assert.equal(pipe.holdsExit, false));
    for (let i = 0; i < 3; i++) {
      pipe.write("line\n".repeat(10));
      await eventually(() => assert.equal(pipe.dropped(), 12 + 10 * i));
    }
    assert.match(pipe.trouble() ?? "", /^lines of the log are dropped: ENOSPC/);
    assert.equal(told.length, 1);
    assert.match(told[0] ?? "", /^Cannot write the log: ENOSPC.*tollgate_log_dropped_total/);
    assert.equal(await pipe.flush(250), true, "nothing waits");
    closeSync(fd);
  });

  it("with room again on a disk: goes on with whole lines, and says how many were dropped", async () => {
    const disk = { text: "", room: 7 };
    const told: string[] = [];
    const pipe = new LogPipe(
      {
        blocks: true,
        write: (chunk, done) => {
          const taken = chunk.subarray(0, disk.room);
          disk.text += taken.toString();
          disk.room -= taken.length;
          const full =
            taken.length === 0 ? Object.assign(new Error("full"), { code: "ENOSPC" }) : null;
          setImmediate(() => done(full, taken.length));
        },
      },
      (text) => told.push(text),
    );
    for (const text of ["one\n", "two\n", "three\n"]) pipe.write(text);
    await eventually(() => assert.equal(pipe.dropped(), 2));
    assert.equal(disk.text, "one\ntwo");
    pipe.write("four\n");
    await eventually(() => assert.equal(pipe.dropped(), 3));
    disk.room = 1_000;
    pipe.write("five\n");
    await eventually(() => assert.equal(pipe.trouble(), undefined));
    await eventually(() => assert.match(disk.text, /"dropped":3,/));
    const [one, two, five, note, end] = disk.text.split("\n");
    assert.deepEqual([one, two, five, end], ["one", "two", "five", ""]);
    const { level, time, msg } = JSON.parse(note ?? "");
    assert.deepEqual([level, msg], ["warn", "log_lines_dropped"]);
    assert.ok(Math.abs(time - Date.now()) < 60_000, `${time}`);
    assert.equal(pipe.dropped(), 3);
    disk.room = 0;
    pipe.write("six\n");
    await eventually(() => assert.equal(pipe.dropped(), 4));
    assert.equal(told.length, 2, "once each time");
  });

  it.for(["ENOSPC", "EDQUOT", "EFBIG", "EIO"])(
    "with room within a second on a disk that says %s: loses nothing",
    async (code) => {
      const disk = { text: "", room: 2 };
      const pipe = new LogPipe({
        blocks: true,
        write: (chunk, done) => {
          const taken = chunk.subarray(0, disk.room);
          disk.text += taken.toString();
          disk.room -= taken.length;
          const full = taken.length === 0 ? Object.assign(new Error("full"), { code }) : null;
          setImmediate(() => done(full, taken.length));
        },
      });
      pipe.write("one\n");
      setTimeout(() => {
        disk.room = 100;
      }, 200);
      assert.equal(await pipe.flush(5_000), true);
      assert.deepEqual([disk.text, pipe.dropped()], ["one\n", 0]);
    },
  );

  it("with no room for a second on a disk: drops what waited for it", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const full = Object.assign(new Error("full"), { code: "ENOSPC" });
    const pipe = new LogPipe({ blocks: true, write: (_chunk, done) => done(full, 0) });
    pipe.write("one\n");
    vi.advanceTimersByTime(1_000);
    assert.equal(pipe.dropped(), 0);
    vi.advanceTimersByTime(200);
    assert.equal(pipe.dropped(), 1);
  });

  it("leaves no timer behind when all is written", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    let end = () => {};
    const pipe = new LogPipe({
      blocks: true,
      write: (chunk, done) => {
        end = () => done(null, chunk.length);
      },
    });
    pipe.write("one\n");
    const flushed = pipe.flush(60_000);
    assert.equal(vi.getTimerCount(), 1);
    end();
    assert.equal(await flushed, true);
    assert.equal(vi.getTimerCount(), 0);
  });

  it("writes a line whole that is longer than all that it has gathered so far", async () => {
    let text = "";
    const pipe = new LogPipe({
      blocks: true,
      write: (chunk, done) => {
        text += chunk.toString();
        setImmediate(() => done(null, chunk.length));
      },
    });
    const lines = ["a\n", "b\n", `${"c".repeat(400_000)}\n`, "d\n"];
    for (const line of lines) {
      pipe.write(line);
      assert.equal(await pipe.flush(60_000), true);
    }
    assert.ok(text === lines.join(""), `${text.length} characters`);
  });
});
