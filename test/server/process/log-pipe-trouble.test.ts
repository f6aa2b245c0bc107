import assert from "node:assert/strict";
import { describe, it, onTestFinished, vi } from "vitest";
import { LogPipe } from "../../../src/server/process/log-pipe.ts";

/** A write that fails at once. */
function failAs(code: string) {
  const error = Object.assign(new Error(code), { code });
  return (_: Buffer, done: (error: Error, written: number) => void) => done(error, 0);
}

describe("what the log pipe says of lines that it drops", () => {
  it("names a full disk, and no reader, where 8 MiB wait within the second that it is given", () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const full = Object.assign(new Error("full"), { code: "ENOSPC" });
    const told: string[] = [];
    const pipe = new LogPipe({ blocks: true, write: (_chunk, done) => done(full, 0) }, (text) =>
      told.push(text),
    );
    const line = `${"x".repeat(1023)}\n`;
    pipe.write(line);
    vi.advanceTimersByTime(100);
    for (let i = 0; i < 9 * 1024; i++) pipe.write(line);
    const trouble = "lines of the log are dropped: ENOSPC, the disk takes no more";
    assert.equal(pipe.trouble(), trouble);
    vi.advanceTimersByTime(2_000);
    assert.equal(pipe.trouble(), trouble);
    assert.match(told.join("|"), /^Cannot write the log: ENOSPC, the disk takes no more[^|]*$/);
  });

  it("names no full disk where it has taken lines since, and a later write does not end", () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const full = Object.assign(new Error("full"), { code: "ENOSPC" });
    let tries = 0;
    const pipe = new LogPipe({
      blocks: true,
      write: (chunk, done) => {
        tries += 1;
        if (tries === 1) done(full, 0);
        else if (tries === 2) done(null, chunk.length);
      },
    });
    const line = `${"x".repeat(1023)}\n`;
    pipe.write(line);
    vi.advanceTimersByTime(200);
    assert.equal(tries, 2);
    for (let i = 0; i < 9 * 1024; i++) pipe.write(line);
    assert.equal(pipe.trouble(), "lines of the log are dropped: a write to it does not end");
  });

  it.each([
    ["do not end", () => {}],
    ["are put off", failAs("EAGAIN")],
  ] as const)("names no reader where writes to a file or a terminal %s", (_, write) => {
    const pipe = new LogPipe({ blocks: true, write });
    const line = `${"x".repeat(1023)}\n`;
    for (let i = 0; i < 9 * 1024; i++) pipe.write(line);
    assert.equal(pipe.trouble(), "lines of the log are dropped: a write to it does not end");
  });

  it("says of a reader that did not read that it is closed once it is", () => {
    let fail = () => {};
    const closed = Object.assign(new Error("closed"), { code: "EPIPE" });
    const told: string[] = [];
    const pipe = new LogPipe(
      {
        blocks: false,
        write: (_chunk, done) => {
          fail = () => done(closed, 0);
        },
      },
      (text) => told.push(text),
    );
    const line = `${"x".repeat(1023)}\n`;
    for (let i = 0; i < 9 * 1024; i++) pipe.write(line);
    assert.equal(pipe.trouble(), "lines of the log are dropped: its reader does not read");
    fail();
    pipe.write(line);
    assert.equal(pipe.trouble(), "lines of the log are dropped: EPIPE, it is closed");
    assert.equal(told.length, 1, "stderr says once that lines are dropped");
  });
});
