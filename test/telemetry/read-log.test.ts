import assert from "node:assert/strict";
import { constants } from "node:buffer";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdtemp, open, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, it } from "vitest";
import { readLogs } from "../../src/telemetry/log/read-log.ts";
import { each } from "../support/each.ts";
import { provided } from "../support/needing.ts";

const linux = provided(process.platform === "linux", "Linux");

const REQUEST = {
  ...{ level: "info", time: 1_790_000_000_000, id: "r1", env: "production", account: "a_1" },
  ...{ plan: "free", method: "GET", path: "/v1/pets", status: 200, source: "backend" },
  ...{ decision: "admitted", charged: 1, forwards: 1, durationMs: 2, client: "127.0.0.1" },
  ...{ decidedAt: 1_790_000_000_000, cost: 1, strikes: 0, msg: "request" },
};

describe("a log read again", () => {
  it("is told line by line from several files, compressed or not, and damage is counted", async () => {
    await using folder = await openFolder();
    const line = (id: string) => JSON.stringify({ ...REQUEST, id });
    const plain = [
      ...[line("r1"), '{"level":"info","time":1,"msg":"draining"}', "", '{"msg":"req', "words"],
      ...[JSON.stringify({ ...REQUEST, charged: -1 }), JSON.stringify({ ...REQUEST, id: 7 })],
      ...[`{"msg":"x${"y".repeat(2 * 1024 ** 2)}`, line("größer"), "[1]", line("r3")],
    ].join("\n");
    const first = join(folder.path, "one.log");
    const second = join(folder.path, "two.log.gz");
    await writeFile(first, plain);
    await writeFile(second, gzipSync(`${line("r4")}\n${line("r5")}\n`));
    const ids: string[] = [];
    const events: string[] = [];
    const told: [number, number][] = [];
    const tally = await readLogs([first, second], {
      request: ({ id }) => ids.push(id),
      event: ({ msg }) => events.push(msg),
      progress: (bytes, all) => told.push([bytes, all]),
    });
    assert.deepEqual(ids, ["r1", "größer", "r3", "r4", "r5"]);
    assert.deepEqual(events, ["draining"]);
    assert.deepEqual(tally, { lines: 12, requests: 5, damaged: 6, firstDamage: `${first}:4` });
    const bytes = (await stat(first)).size + (await stat(second)).size;
    assert.deepEqual(told.at(-1), [bytes, bytes], "all bytes were told");
    assert.ok(each(told).every(([, all]) => all === bytes));
  });

  it("has every line after a truncation of which the writer knows nothing, and NULs elsewhere are damage", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "cut.log");
    const lineOf = (id: string) => `${JSON.stringify({ ...REQUEST, id })}\n`;
    const writer = await open(file, "w");
    await writer.write(lineOf("old").repeat(8_000));
    // As logrotate does with `copytruncate`: what is written next has NULs ahead of it.
    await truncate(file);
    await writer.write(`${lineOf("r1")}\0${lineOf("r2")}${lineOf("r3")}`);
    await writer.close();
    assert.ok((await stat(file)).size > 2 * 1024 ** 2);
    const ids: string[] = [];
    const tally = await readLogs([file], { request: ({ id }) => ids.push(id) });
    assert.deepEqual(ids, ["r1", "r3"]);
    assert.deepEqual(tally, { lines: 3, requests: 2, damaged: 1, firstDamage: `${file}:2` });
  });

  it("has no line of more than a mebibyte, though it is whole", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "wide.log");
    const wide = (characters: number) => {
      const line = JSON.stringify({ ...REQUEST, path: "" });
      return line.replace('"path":""', `"path":"${"x".repeat(characters - line.length)}"`);
    };
    await writeFile(file, [wide(1024 ** 2), wide(1024 ** 2 + 1), wide(900)].join("\n"));
    const tally = await readLogs([file], { request: () => {} });
    assert.deepEqual(tally, { lines: 3, requests: 2, damaged: 1, firstDamage: `${file}:2` });
  });

  it("may have a line that is longer than any text, and the next one is told", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "endless.log");
    await writeFile(file, "{");
    await truncate(file, constants.MAX_STRING_LENGTH + 1);
    await appendFile(file, `\n${JSON.stringify(REQUEST)}\n`);
    const tally = await readLogs([file], { request: () => {} });
    assert.deepEqual(tally, { lines: 2, requests: 1, damaged: 1, firstDamage: `${file}:1` });
  });

  it("has decided requests only with their cost", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "costs.log");
    const { cost: _, ...costless } = REQUEST;
    const { decidedAt: __, ...undecided } = costless;
    const all = [costless, undecided, REQUEST].map((line) => JSON.stringify(line));
    await writeFile(file, all.join("\n"));
    const tally = await readLogs([file], { request: () => {} });
    assert.deepEqual(tally, { lines: 3, requests: 2, damaged: 1, firstDamage: `${file}:1` });
  });

  it("that was compressed and cut off gives what came before the cut, and counts the cut", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "cut.gz");
    const lines = Array.from({ length: 5_000 }, (_, i) =>
      JSON.stringify({ ...REQUEST, id: `r${i}${Math.sin(i)}` }),
    );
    const whole = gzipSync(lines.join("\n"));
    await writeFile(file, whole.subarray(0, whole.length / 2));
    let requests = 0;
    const tally = await readLogs([file], { request: () => requests++ });
    assert.ok(requests > 100 && requests < 5_000, String(requests));
    const { lines: read, damaged, firstDamage } = tally;
    assert.deepEqual([read, damaged, firstDamage], [requests, 1, `${file}:${requests + 1}`]);
    const words = join(folder.path, "words.log");
    await writeFile(words, "words");
    const both = await readLogs([words, file], { request: () => {} });
    assert.deepEqual([both.damaged, both.firstDamage], [2, `${words}:1`]);
  });

  it("that the system stops giving on the way is refused in words", linux, async () => {
    const idle = `console.log(process.pid); setInterval(() => {}, 1e6)`;
    const reaped = [`"$0" -e "$1" & wait`, process.execPath, idle];
    const shell = spawn("sh", ["-c", ...reaped], { stdio: ["ignore", "pipe", "inherit"] });
    const pid = Number((await once(shell.stdout, "data"))[0]);
    // Some pages at a time; once the process is gone the system answers ESRCH.
    const file = `/proc/${pid}/smaps`;
    const end = `kill -9 ${pid} && while kill -0 ${pid}; do :; done`;
    let isRunning = true;
    const progress = () => {
      if (isRunning) execFileSync("sh", ["-c", end], { stdio: "ignore" });
      isRunning = false;
    };
    const reading = readLogs([file], { request: () => {}, progress });
    await assert.rejects(reading, new Error(`Cannot read the log ${file}: the system says ESRCH`));
  });

  it("is told once, however many files of a rotation hold its lines, whole or cut", async () => {
    await using folder = await openFolder();
    const line = (id: string) => JSON.stringify({ ...REQUEST, id });
    const text = [
      '{"level":"info","time":1,"msg":"draining"}',
      ...["r1", "r2", "r3", "r4"].map(line),
      "",
    ].join("\n");
    const write = async (name: string, content: string | Buffer) => {
      await writeFile(join(folder.path, name), content);
      return join(folder.path, name);
    };
    const whole = await write("gateway.log", text);
    const length = line("r4").length;
    const copied = await write("gateway.log.1", text.slice(0, -1.5 * length));
    const ended = await write("gateway.log.2", text.slice(0, -length - 2));
    const packed = await write("gateway.log.1.gz", gzipSync(text));
    const next = await write("gateway.log.3", `${line("r5")}\n`);
    for (const files of [
      [whole, next, copied, ended, packed],
      [copied, packed, next, whole, copied],
      [ended, whole, ended, next],
      [whole, whole, next],
    ]) {
      const ids: string[] = [];
      const events: string[] = [];
      await readLogs(files, {
        request: ({ id }) => ids.push(id),
        event: ({ msg }) => events.push(msg),
      });
      assert.deepEqual(ids.sort(), ["r1", "r2", "r3", "r4", "r5"], files.join());
      assert.deepEqual(events, ["draining"]);
    }
  });

  it("has each damaged line of a copy counted once, the last one too", async () => {
    await using folder = await openFolder();
    const [file, copy] = ["gateway.log", "gateway.log.1"].map((name) => join(folder.path, name));
    for (const path of [file, copy]) {
      await writeFile(path as string, `${JSON.stringify(REQUEST)}\nwords\n`);
    }
    const { lines, damaged } = await readLogs([file as string, copy as string], {
      request: () => {},
    });
    assert.deepEqual([lines, damaged], [2, 1]);
  });

  it("is told from the oldest file of a rotation to the newest, log after log, in whatever order they are named", async () => {
    await using folder = await openFolder();
    const write = async (name: string, id: string, time: number) => {
      const line = JSON.stringify({ ...REQUEST, id, time });
      const started = JSON.stringify({ time: time - 5, msg: "serving" });
      // The logs of b begin with a request.
      const text = `${name.startsWith("a") ? started : ""}\n${line}\n`;
      await writeFile(join(folder.path, name), name.endsWith(".gz") ? gzipSync(text) : text);
    };
    await write("a.log", "a3", 3_000);
    await write("a.log.1", "a2", 2_000);
    await write("a.log.2.gz", "a1", 1_000);
    await write("b.log", "b2", 2_500);
    await write("b.log-20261124", "b1", 500);
    const started = JSON.stringify({ time: 1_500, msg: "serving" });
    const reloading = JSON.stringify({ time: 2_600, msg: "reloading" });
    // Its first line is older than that of a.log.1; its second line and its request are not.
    const late = JSON.stringify({ ...REQUEST, id: "late", time: 2_800 });
    await writeFile(join(folder.path, "a.log-20261125"), `${started}\n${reloading}\n${late}\n`);
    const told = async (names: readonly string[]) => {
      const told: unknown[] = [];
      await readLogs(
        names.map((name) => join(folder.path, name)),
        {
          request: ({ id }) => told.push(id),
          event: ({ time }) => time === 1_500 && told.push("started"),
        },
      );
      return told.join(" ");
    };
    const a = ["a.log", "a.log-20261125", "a.log.1", "a.log.2.gz"];
    const b = ["b.log", "b.log-20261124"];
    assert.equal(await told([...a, ...b]), "a1 started late a2 a3 b1 b2");
    assert.equal(await told([...b, ...a.toReversed()]), "b1 b2 a1 started late a2 a3");
    assert.equal(await told(["b.log", ...a, "b.log-20261124"]), "b1 b2 a1 started late a2 a3");
  });

  it("that is not there is said before anything is told", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "there.log");
    await writeFile(file, JSON.stringify(REQUEST));
    let requests = 0;
    const reading = (second: string) => readLogs([file, second], { request: () => requests++ });
    await assert.rejects(
      reading(join(folder.path, "none.log")),
      /none\.log: there is no such file/,
    );
    await assert.rejects(reading(folder.path), /it is a folder; name its files/);
    await assert.rejects(reading(join(file, "x")), /x: the system says ENOTDIR; check the path$/);
    assert.equal(requests, 0);
  });

  it("that comes through a pipe is refused in words, as an audit reads its logs again", async () => {
    await using folder = await openFolder();
    const pipe = join(folder.path, "pipe");
    execFileSync("mkfifo", [pipe]);
    await using _writer = await open(pipe, "r+");
    const reading = readLogs([pipe], { request: () => {} });
    await assert.rejects(reading, /^Error: Cannot read the log \S+: it is a pipe; name a file$/);
  });

  it("that the system cannot read is told with its name", linux, async () => {
    const reading = readLogs(["/proc/self/mem"], { request: () => {} });
    const expected = /^Error: Cannot read the log \/proc\/self\/mem: the system says EIO$/;
    await assert.rejects(reading, expected);
  });

  it("of a million lines is read within a bounded memory", async () => {
    await using folder = await openFolder();
    const line = `${JSON.stringify(REQUEST)}\n`;
    const rest = gzipSync(line.repeat(99_999), { level: 1 });
    const files = Array.from({ length: 10 }, (_, i) => join(folder.path, `long.${i}.log.gz`));
    for (const [i, file] of files.entries()) {
      const first = gzipSync(line.replace('"id":"r1"', `"id":"first-${i}"`));
      await writeFile(file, Buffer.concat([first, rest]));
    }
    const before = process.memoryUsage().rss;
    let most = 0;
    let requests = 0;
    await readLogs(files, {
      request: () => {
        requests += 1;
        if (requests % 50_000 === 0) most = Math.max(most, process.memoryUsage().rss);
      },
    });
    assert.equal(requests, 1_000_000);
    const grown = (most - before) / 1024 ** 2;
    assert.ok(
      grown < 200,
      `${grown.toFixed(0)} MiB more for ${(line.length * 10) / 100} MB of text`,
    );
  });
});

async function openFolder() {
  const path = await mkdtemp(join(tmpdir(), "tollgate-log-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
