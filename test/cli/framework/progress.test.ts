import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, it } from "vitest";
import { openProgress, showWait, type Terminal } from "../../../src/cli/framework/terminal.ts";
import { takeLock } from "../../../src/stores/files/file-lock.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openTcpProxy } from "../../support/wire/tcp-proxy.ts";
import { openAdmin, send } from "../access/admin-server.ts";
import { openAudited } from "../audit-kit.ts";
import { openFolder, runVerb, writeConfig } from "../kit.ts";

const CLEAR = `${String.fromCharCode(27)}[K`;

function opened(isErrTty: boolean) {
  const clock = { nowMs: 0 };
  const said: string[] = [];
  const terminal = { isErrTty, now: () => clock.nowMs, err: (text: string) => said.push(text) };
  return { clock, said, progress: openProgress(terminal as unknown as Terminal) };
}

const server = await startRedis();
afterAll(() => server.close());

describe("the progress of long work", () => {
  it("is silent for a second, then told five times a second at most, and wiped at the end", () => {
    const { clock, said, progress } = opened(true);
    for (clock.nowMs = 0; clock.nowMs < 1_000; clock.nowMs += 10) progress.tell(1, 200);
    assert.deepEqual(said, []);
    for (clock.nowMs = 1_000; clock.nowMs <= 1_399; clock.nowMs += 1) {
      progress.tell(clock.nowMs, 2_000);
    }
    assert.deepEqual(said, [`\rReading: 50 %${CLEAR}`, `\rReading: 60 %${CLEAR}`]);
    progress.end();
    assert.equal(said.at(-1), `\r${CLEAR}`);
  });

  it("begins with the second, and takes nothing for the beginning of all", () => {
    const { clock, said, progress } = opened(true);
    clock.nowMs = 1_000;
    progress.tell(0, 0);
    clock.nowMs = 2_000;
    progress.tell(1_999, 2_000);
    assert.deepEqual(said, [`\rReading: 0 %${CLEAR}`, `\rReading: 99 %${CLEAR}`]);
  });

  it("leaves nothing behind where it was short, and says nothing where no terminal is", () => {
    const short = opened(true);
    short.progress.tell(1, 2);
    short.progress.end();
    assert.deepEqual(short.said, []);
    const { clock, said, progress } = opened(false);
    clock.nowMs = 60_000;
    progress.tell(1, 2);
    progress.end();
    assert.deepEqual(said, []);
  });

  it("tells after each second how long an answer takes, is wiped then, and tells no other than a terminal", async () => {
    const said: string[] = [];
    const waited = (isErrTty: boolean, work: Promise<unknown>) => {
      const terminal = { isErrTty, err: (text: string) => said.push(text) };
      return showWait(terminal as unknown as Terminal, "Waiting", work);
    };
    const told = eventually(() => assert.equal(said.length, 2));
    await Promise.all([waited(true, told), waited(false, told), waited(true, Promise.resolve())]);
    assert.deepEqual(said, [`\rWaiting: 1 s${CLEAR}`, `\rWaiting: 2 s${CLEAR}`, `\r${CLEAR}`]);
    await assert.rejects(waited(true, Promise.reject(new Error("gone"))), /gone/);
    assert.equal(said.length, 3);
  });

  it("is shown by a verb that reads a log, on stderr alone, up to its end", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const log = join(folder.path, "gateway.log");
    const line = JSON.stringify({
      level: "info",
      time: 1_000,
      msg: "serving",
      why: "x".repeat(90),
    });
    await writeFile(log, `${line}\n`.repeat(4_000));
    let nowMs = Date.UTC(2026, 4, 5, 12);
    const now = () => {
      nowMs += 400;
      return nowMs;
    };
    const args = ["plans", "try", file, "--log", log, "--config", file, "--json"];
    const shown = await runVerb(args, { isErrTty: true, now });
    assert.equal(shown.status, 0, shown.err);
    JSON.parse(shown.out);
    const percents = [...shown.err.matchAll(/\rReading: (\d+) %/g)].map(([, one]) => Number(one));
    assert.ok(percents.length >= 2, shown.err);
    assert.deepEqual(
      percents,
      percents.toSorted((a, b) => a - b),
    );
    assert.ok(shown.err.trimEnd().includes(`\r${CLEAR}`), "it is wiped");
    const hidden = await runVerb(args, { now });
    assert.doesNotMatch(hidden.err, /Reading/);
  });

  it("is shown by each verb that waits a second for the records or for a change of them, on stderr alone", async () => {
    await using folder = await openFolder();
    await using proxy = await openTcpProxy(server);
    const file = await writeConfig(folder, {
      store: `redis://127.0.0.1:${proxy.port}`,
      keys: "redis",
    });
    const lines = join(folder.path, "lines.jsonl");
    const line = { key: "k".repeat(40), account: "acme", plan: "free", environment: "production" };
    await writeFile(lines, JSON.stringify(line));
    const run = (args: string, isErrTty = true) => {
      return runVerb([...args.split(" "), "--config", file], { isErrTty });
    };
    proxy.behave({ answerLatencyMs: 600 });
    const asked = [
      "keys list",
      "keys export",
      "usage --over 80%",
      `keys import ${lines} --dry-run`,
    ];
    const [hidden, ...shown] = await Promise.all([
      run("keys list --json", false),
      ...asked.map((args) => run(`${args} --json`)),
    ]);
    assert.deepEqual([hidden.status, hidden.err], [0, ""]);
    assert.equal(shown.length, asked.length);
    for (const { err, out } of shown) {
      JSON.parse(out === "" ? "null" : out);
      assert.ok(err.startsWith(`\rReading the keys: 1 s${CLEAR}`), err);
      assert.ok(err.includes(`\r${CLEAR}`), "it is wiped");
    }
    proxy.behave({});
    const lock = await takeLock(join(folder.path, "data", "keys.json"), 1_000);
    const inFile = await writeConfig(folder, { more: "foreignKeys: [{ prefix: kk, min: 22 }]\n" });
    const args = ["keys", "import", lines, "--plain", "--json", "--config", inFile];
    let told = "";
    const imported = await runVerb(args, {
      isErrTty: true,
      onErr: (text) => {
        if (told === "") lock?.release();
        told += text;
      },
    });
    assert.equal(imported.status, 0, imported.err);
    assert.equal(told, `\rImporting: 1 s${CLEAR}\r${CLEAR}`);
  });

  it("is shown of each slow answer of a gateway, also of one behind the first of its verb", async () => {
    await using house = await openAudited();
    const { account } = await house.issue();
    await using late = await openAdmin(async (response, { asked, body }) => {
      const [method = "", path = ""] = asked.split(" ");
      const how = { method, headers: { "Content-Type": "application/json" } };
      const sent = fetch(`${house.adminUrl}${path}`, body === "" ? how : { ...how, body });
      const [answer] = await Promise.all([sent, sleep(1_500)]);
      send(response, answer.status, await answer.json());
    });
    const slow = join(house.directory, "slow.yaml");
    const text = await readFile(house.file, "utf8");
    await writeFile(slow, text.replaceAll(new URL(house.adminUrl).host, new URL(late.origin).host));
    const waits = async (args: string) => {
      const where = args.includes("--admin") ? [] : ["--config", slow];
      const { err } = await runVerb([...args.split(" "), ...where], { isErrTty: true });
      return [args, err.split(`\r${CLEAR}`).length - 1, err] as const;
    };
    const asked = [
      [3, waits("bans list")],
      [3, waits(`bans add ${account} --for 1h`)],
      [3, waits(`bans lift ${account}`)],
      [3, waits(`accounts reset ${account}`)],
      [3, waits(`usage ${account}`)],
      [2, waits(`usage ${account} --admin ${late.origin}`)],
      [2, waits("status")],
      [3, waits("accounts show nobody")],
    ] as const;
    for (const [least, told] of asked) {
      const [args, count, err] = await told;
      assert.ok(count >= least, `${args}: ${err}`);
    }
  });
});
