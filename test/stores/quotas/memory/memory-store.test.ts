import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { afterAll, afterEach, beforeAll, describe, it } from "vitest";
import type { QuotaDecision, QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { SPARE_MS } from "../../../../src/core/quota/windows.ts";
import { createMemoryQuotaStore } from "../../../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { MemoryQuotaStoreOptions } from "../../../../src/stores/quotas/memory/memory-quota-store.ts";
import { readState } from "../../../../src/stores/quotas/memory/state-file.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { startNode } from "../../../support/gateway/processes.ts";
import { eventually } from "../../../support/poll.ts";

const START = Date.UTC(2026, 6, 15, 12, 30, 10);
const BANS = { ...DEFAULT_BANS, strikes: 1, forgetAfterMs: 3_600_000 };
const ASK: QuotaRequest = {
  limits: [
    { window: "minute", limit: 3 },
    { window: "day", limit: 5 },
  ],
  bans: BANS,
  requests: 1,
};

let directory: string;
let stateFile: string;
let nowMs = START;
let told: string[] = [];
const opened: QuotaStore[] = [];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tollgate-state-"));
  stateFile = join(directory, "data", "state.json");
});
afterAll(() => rm(directory, { recursive: true, force: true }));
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  await rm(join(directory, "data"), { recursive: true, force: true });
  nowMs = START;
  told = [];
});

async function open(more: Partial<MemoryQuotaStoreOptions> = {}): Promise<QuotaStore> {
  const report = (level: string, event: string, details?: { readonly why?: unknown }) => {
    told.push(`${level}: ${details?.why ?? event}`);
  };
  const given = { stateFile, now: () => nowMs, report, bans: BANS, ...more };
  const store = await createMemoryQuotaStore(given);
  opened.push(store);
  return store;
}

async function close(store: QuotaStore): Promise<void> {
  opened.splice(opened.indexOf(store), 1);
  await store.close();
}

function name(account: string) {
  return { environment: "production", account };
}

/** This store answers at once. */
function spend(store: QuotaStore, account: string, quotaRequest: QuotaRequest): QuotaDecision {
  const answer = store.charge(name(account), quotaRequest);
  assert.ok("decision" in answer);
  return answer.decision;
}

async function used(store: QuotaStore, account: string): Promise<number[]> {
  return (await store.peek(name(account), ASK)).windows.map((window) => window.used);
}

describe("The memory store over a restart", () => {
  it("knows counts, strikes, bans and offences", async () => {
    const store = await open();
    const bans = { ...BANS, strikes: 2 };
    for (let i = 0; i < 4; i++) spend(store, "struck", { ...ASK, bans });
    nowMs += 1_001;
    spend(store, "struck", { ...ASK, bans });
    for (let i = 0; i < 4; i++) spend(store, "banned", ASK);
    nowMs += 1_001;
    spend(store, "banned", ASK);
    void store.charge({ environment: "staging", account: "banned" }, ASK);
    const listed = await store.bans();
    assert.equal(listed.length, 1);
    await close(store);

    const later = await open();
    assert.deepEqual(await used(later, "struck"), [3, 3]);
    assert.deepEqual(await later.bans(), listed);
    assert.equal((await later.peek(name("struck"), { ...ASK, bans })).strikes, 1);
    const other = await later.peek({ environment: "staging", account: "banned" }, ASK);
    assert.deepEqual(
      other.windows.map((window) => window.used),
      [1, 1],
    );
  });

  it("knows an account before any request is decided: its counts, its ban, and none if bans are off", async () => {
    const store = await open();
    for (let i = 0; i < 2; i++) spend(store, "counted", ASK);
    const imposed = { lengthMs: 60_000, window: "day", keptMs: 1_000, plan: "free" } as const;
    const { untilMs } = await store.ban(name("counted"), { ...imposed, reason: "" });
    await close(store);

    const known = (later: QuotaStore) => {
      const { windows = [], ban } = later.lastKnown(name("counted"), ASK.limits) ?? {};
      return [windows.map((window) => window.used), ban?.untilMs];
    };
    const later = await open();
    assert.deepEqual(known(later), [[2, 2], untilMs]);
    assert.equal(later.lastKnown(name("unused"), ASK.limits), undefined);
    await close(later);
    assert.deepEqual(known(await open({ bans: undefined })), [[2, 2], undefined]);
  });

  it("knows them after a SIGKILL too, but for the last second", async () => {
    const memory = new URL(
      "../../../../src/stores/quotas/memory/create-memory-quota-store.ts",
      import.meta.url,
    ).pathname;
    const script = `import { createMemoryQuotaStore } from ${JSON.stringify(memory)};
      const store = await createMemoryQuotaStore({ stateFile: ${JSON.stringify(stateFile)}, now: () => ${START}, report() {} });
      store.charge(${JSON.stringify(name("a"))}, ${JSON.stringify(ASK)});
      console.log("spent"); setInterval(() => {}, 1e6);`;
    await using child = startNode(["--input-type=module", "-e", script]);
    await child.says("spent");
    await eventually(() => stat(stateFile));
    await assert.rejects(open(), /Cannot use the state file .* a gateway has it open already/);
    await child.kill();
    assert.deepEqual(await used(await open(), "a"), [1, 1]);
  });

  it("writes a new file within a second, though nobody has asked for anything", async () => {
    await open({ everyMs: 10 });
    await eventually(() => stat(stateFile));
  });

  it("writes when something changed, for its owner only, and leaves nothing else behind", async () => {
    const store = await open({ everyMs: 10 });
    spend(store, "a", ASK);
    await eventually(() => stat(stateFile));
    const { mode, mtimeNs } = await stat(stateFile, { bigint: true });
    assert.equal(Number(mode) & 0o777, 0o600);
    spend(store, "a", ASK);
    await eventually(async () => {
      assert.notEqual((await stat(stateFile, { bigint: true })).mtimeNs, mtimeNs);
    });
    await close(store);
    const { ino } = await stat(stateFile);
    await close(await open({ everyMs: 10 }));
    assert.equal((await stat(stateFile)).ino, ino, "written without a change");
    assert.deepEqual((await readdir(join(directory, "data"))).sort(), [
      "state.json",
      "state.json.lock",
    ]);
  });

  it("has written all of it when it is closed in the middle of a write", async () => {
    const store = await open({ everyMs: 5 });
    for (let i = 0; i < 50_000; i++) spend(store, `a${i}`, ASK);
    await eventually(() => stat(`${stateFile}.tmp`), { everyMs: 1 });
    await close(store);
    await assert.rejects(stat(`${stateFile}.tmp`));
    assert.deepEqual(await used(await open(), "a49999"), [1, 1]);
  });

  it("writes 100,000 accounts without holding up the event loop for 50 ms", async () => {
    const store = await open();
    for (let i = 0; i < 100_000; i++) spend(store, `acct_${i}`, ASK);
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const piecesMs: number[] = [];
    let lastMs = performance.now();
    const timer = setInterval(() => {
      piecesMs.push(performance.now() - lastMs);
      lastMs = performance.now();
    }, 1);
    delay.enable();
    await close(store);
    delay.disable();
    clearInterval(timer);
    assert.ok(delay.percentile(90) / 1e6 < 50, `${delay.percentile(90) / 1e6} ms`);
    assert.ok(piecesMs.length > 10, `the loop had only ${piecesMs.length} turns`);
  });

  it("tells that its file cannot be written before anything is charged", async () => {
    const first = await open();
    spend(first, "a", ASK);
    await close(first);
    // A directory in the place of the temporary file: refused even for root.
    await mkdir(`${stateFile}.tmp`);
    const store = await open({ everyMs: 5 });
    await eventually(() => assert.match(told[0] ?? "", /^error: Cannot write the state file /));
    await rm(`${stateFile}.tmp`, { recursive: true });
    await eventually(() => assert.equal(told[1], "info: state_file_written"));
    assert.deepEqual(await used(store, "a"), [1, 1]);
  });

  it("ends well though its file cannot be written, if the file lacks nothing", async () => {
    const first = await open();
    spend(first, "a", ASK);
    await close(first);
    await mkdir(`${stateFile}.tmp`);
    const second = await open({ everyMs: 5 });
    await eventually(() => assert.match(told[0] ?? "", /^error: Cannot write the state file /));
    await close(second);
    const third = await open({ everyMs: 5 });
    await eventually(() => assert.equal(told.length, 2));
    spend(third, "a", ASK);
    await assert.rejects(close(third), /^Error: Cannot write the state file /);
  });

  it("saves all changes that wait with one write after the one under way, and says why it could not", async () => {
    const store = await open({ everyMs: 3_600_000 });
    const imposed = { lengthMs: 60_000, window: "day", keptMs: 1_000, plan: "free" } as const;
    const ban = async (account: string) => {
      await store.ban(name(account), { ...imposed, reason: "" });
      return store.whyUnsaved();
    };
    const first = ban("first");
    const accounts = Array.from({ length: 20 }, (_, i) => `a${i}`);
    const answers = await Promise.all([first, ...accounts.map(ban)]);
    assert.deepEqual(new Set(answers), new Set([undefined]));
    const saved = await readState(stateFile);
    assert.equal(saved.filter(({ state }) => state.ban !== undefined).length, 21);
    await mkdir(join(`${stateFile}.tmp`, "in-the-way"), { recursive: true });
    const failed = await Promise.all(accounts.map(ban));
    assert.match([...new Set(failed)].join(), /^Cannot write the state file [^,]*$/);
    assert.equal(store.unwrittenCount(), 1);
    await rm(`${stateFile}.tmp`, { recursive: true });
    assert.equal(await store.whyUnsaved(), undefined);
  });

  it("is closed when a save that a change waits for is done", async () => {
    for (const isSaving of [false, true]) {
      const store = await open({ everyMs: 3_600_000 });
      const imposed = { lengthMs: 60_000, window: "day", keptMs: 1_000, plan: "free" } as const;
      const first = isSaving ? store.whyUnsaved() : undefined;
      await store.ban(name(`last${isSaving}`), { ...imposed, reason: "" });
      const answer = store.whyUnsaved();
      await close(store);
      const saved = (await readState(stateFile)).map(({ account }) => account);
      assert.ok(saved.includes(`last${isSaving}`), saved.join());
      assert.deepEqual([await first, await answer], [undefined, undefined]);
    }
  });

  it("moves windows from an impossible future to the present, and says so", async () => {
    const store = await open();
    nowMs = START + 400 * 86_400_000;
    spend(store, "a", ASK);
    await close(store);
    nowMs = START;
    const later = await open();
    spend(later, "a", ASK);
    assert.deepEqual(await used(later, "a"), [2, 2]);
    assert.match(told.join(), /warn: counter_repaired/);
  });

  it("tells of a window and a ban that it moves where each was, where it is, and what the window counts", async () => {
    nowMs = START;
    const lines: unknown[] = [];
    const store = await createMemoryQuotaStore({
      now: () => nowMs,
      report: (_, event, details) => lines.push([event, details]),
    });
    const bans = { ...DEFAULT_BANS, strikes: 1, graceMs: 0 };
    const request = { limits: [{ window: "hour", limit: 1 }], bans, requests: 1 } as const;
    for (let i = 0; i < 3; i++) {
      await store.charge(name("a"), request);
      nowMs += 1;
    }
    nowMs -= 86_400_000;
    await store.charge(name("a"), request);
    await store.close();
    const seconds = (...time: [number, number, number]) => Date.UTC(2026, 6, ...time) / 1_000;
    const moved = [
      { window: "hour", used: 1, from: seconds(15, 12, 0), to: seconds(14, 12, 0) },
      { ban: true, from: seconds(15, 12, 31) + 11, to: seconds(14, 12, 31) + 11 },
    ];
    const { environment, account } = name("a");
    assert.deepEqual(lines, [["counter_repaired", { environment, account, moved }]]);
  });

  it("goes on with the old file whole when it cannot write, told once, and heals", async () => {
    const store = await open({ everyMs: 10 });
    spend(store, "a", ASK);
    await eventually(() => stat(stateFile));
    const before = await readFile(stateFile, "utf8");
    // A directory in the place of the temporary file: refused even for root.
    await mkdir(join(`${stateFile}.tmp`, "in-the-way"), { recursive: true });
    spend(store, "a", ASK);
    await eventually(() => assert.notEqual(store.health().why, undefined));
    await eventually(() => assert.equal(told.length, 1));
    assert.match(told[0] ?? "", /^error: Cannot write the state file .*Serving goes on/);
    assert.equal(store.health().ok, true);
    assert.equal(await readFile(stateFile, "utf8"), before);
    await rm(`${stateFile}.tmp`, { recursive: true });
    await eventually(() => assert.deepEqual(store.health(), { ok: true }));
    assert.deepEqual(told.slice(1), ["info: state_file_written"]);
    assert.notEqual(await readFile(stateFile, "utf8"), before);
  });
});

describe("The memory of the memory store", () => {
  const one: QuotaRequest = { ...ASK, limits: [{ window: "minute", limit: 1 }] };
  const isKnown = (store: QuotaStore, account: string) =>
    store.lastKnown(name(account)) !== undefined;

  /** Goes through all accounts at once: when the marker is gone, the others were looked at. */
  async function swept(store: QuotaStore, toMs: number): Promise<void> {
    nowMs = toMs - 1_000 - SPARE_MS;
    spend(store, "marker", { ...one, limits: [{ window: "second", limit: 9 }], bans: BANS });
    nowMs = toMs;
    await eventually(() => assert.ok(!isKnown(store, "marker")));
  }

  it("lets go of an account once windows, strikes and offences are all over, and not before", async () => {
    const store = await open({ stateFile: undefined, everyMs: 5 });
    spend(store, "counted", one);
    for (let i = 0; i < 2; i++) spend(store, "banned", one);
    nowMs += 1_001;
    const { ban } = spend(store, "banned", one);
    const windowEndMs = Date.UTC(2026, 6, 15, 12, 31);
    const forgottenMs = (ban?.untilMs ?? 0) + BANS.forgetAfterMs;

    await swept(store, SPARE_MS + windowEndMs - 1);
    assert.ok(isKnown(store, "counted"));
    await swept(store, SPARE_MS + windowEndMs);
    assert.ok(!isKnown(store, "counted"));
    await swept(store, SPARE_MS + forgottenMs - 1);
    assert.ok(isKnown(store, "banned"));
    await swept(store, SPARE_MS + forgottenMs);
    assert.ok(!isKnown(store, "banned"));
  });

  it("keeps bans and offences of accounts, whatever an address without a key has asked since", async () => {
    const store = await open({ stateFile: undefined, everyMs: 5 });
    for (let i = 0; i < 2; i++) spend(store, "banned", one);
    nowMs += 1_001;
    const { ban } = spend(store, "banned", one);
    const second = { ...one, limits: [{ window: "second", limit: 9 }], bans: undefined } as const;
    spend(store, "addr:192.0.2.1", second);
    assert.deepEqual(
      (await store.bans()).map(({ account }) => account),
      ["banned"],
    );
    nowMs = SPARE_MS + Math.max(ban?.untilMs ?? 0, Date.UTC(2026, 6, 15, 12, 31));
    // When the address is gone, the accounts were looked at.
    await eventually(() => assert.ok(!isKnown(store, "addr:192.0.2.1")));
    assert.ok(isKnown(store, "banned"), "its offence is not forgotten yet");
  });

  it("lets go of addresses though no account has asked for anything", async () => {
    const store = await open({ stateFile: undefined, everyMs: 5 });
    const second = { ...one, limits: [{ window: "second", limit: 9 }], bans: undefined } as const;
    spend(store, "addr:192.0.2.1", second);
    assert.ok(isKnown(store, "addr:192.0.2.1"));
    nowMs += 1_000 + SPARE_MS;
    await eventually(() => assert.ok(!isKnown(store, "addr:192.0.2.1")));
  });

  it("is bounded: of too many accounts the idle ones go, the banned ones last", async () => {
    const store = await open({ stateFile: undefined, accountsMax: 100, everyMs: 5 });
    for (let i = 0; i < 2; i++) spend(store, "banned", one);
    nowMs += 1_001;
    spend(store, "banned", one);
    spend(store, "busy", one);
    for (let i = 0; i < 500; i++) {
      spend(store, `idle_${i}`, one);
      if (i % 10 === 0) spend(store, "busy", one);
    }
    let known = 0;
    for (let i = 0; i < 500; i++) known += isKnown(store, `idle_${i}`) ? 1 : 0;
    assert.equal(known, 98);
    assert.ok(isKnown(store, "banned") && isKnown(store, "busy"));
    assert.deepEqual(told, ["warn: accounts_full"]);
  });

  it("has places of their own for client addresses, however many there are", async () => {
    const store = await open({ stateFile: undefined, accountsMax: 10 });
    const kept = (names: readonly string[]) => names.filter((name) => isKnown(store, name)).length;
    const accounts = Array.from({ length: 10 }, (_, i) => `account_${i}`);
    const addresses = Array.from({ length: 500 }, (_, i) => `addr:2001:db8:0:${i}::/64`);
    for (const name of accounts) spend(store, name, one);
    for (const address of addresses) spend(store, address, one);
    assert.equal(kept(accounts), 10);
    assert.equal(kept(addresses), 10);
    assert.deepEqual(told, ["warn: accounts_full"]);
  });
});
