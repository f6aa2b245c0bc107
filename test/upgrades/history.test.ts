import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "vitest";
import { dayOf, formatDay } from "../../src/core/quota/days.ts";
import { createMemoryQuotaStore } from "../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { QuotaStore } from "../../src/stores/quotas/quota-store.ts";
import { account, open, perDay, spend } from "../stores/quotas/redis/redis-kit.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";
import { recorded, recordedRun, restore } from "./first-release.ts";

const { server, redis } = await useRedis();
const HISTORY_MS = 400 * 86_400_000;

/** A run of the first version that kept usage by day: see test/fixtures/README.md. */
type Run = {
  readonly recordedMs: number;
  readonly keys: Readonly<Record<string, { readonly id: string }>>;
  readonly history: readonly { readonly account: string; readonly day: string }[];
  readonly lastUsed: Readonly<Record<string, string | null>>;
  readonly hashes: Parameters<typeof restore>[1];
};
const FIRST = new URL("../fixtures/first-history/", import.meta.url);
const text = (name: string) => readFile(new URL(name, FIRST), "utf8");
const run = async (name: string) => JSON.parse(await text(name)) as Run;

type Files = { readonly state: string; readonly notes?: string; readonly day?: string };

/** The files of a memory store, and a store of today on them at that instant. */
async function onFiles(t: TestContext, files: Files, nowMs: number) {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-history-"));
  t.onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const paths = {
    state: join(folder, "state.json"),
    notes: join(folder, "state.notes.json"),
    day: join(folder, "state.history", `${formatDay(dayOf(nowMs))}.jsonl`),
  };
  await mkdir(join(folder, "state.history"));
  for (const name of ["state", "notes", "day"] as const) {
    const content = files[name];
    if (content !== undefined) await writeFile(paths[name], content);
  }
  const start = async () => {
    const store = await createMemoryQuotaStore({
      ...{ stateFile: paths.state, now: () => nowMs, report: () => undefined },
      historyMs: HISTORY_MS,
    });
    t.onTestFinished(() => store.close());
    return store;
  };
  return { start, paths };
}

/** The history and the last days of keys as the admin API told them. */
async function toldBy(store: QuotaStore, { recordedMs, keys }: Run) {
  const today = dayOf(recordedMs);
  const names = Object.keys(keys);
  const span = { from: today - 40, to: today };
  const days = await store.history(names.map(account), span);
  const used = await store.activity.lastUsed(Object.values(keys).map(({ id }) => id));
  return {
    history: names.flatMap((name, i) => {
      return (days[i] ?? []).map((one) => ({ account: name, ...one, day: formatDay(one.day) }));
    }),
    lastUsed: Object.fromEntries(
      Object.entries(keys).map(([name, { id }]) => {
        const day = used.get(id);
        return [name, day === undefined ? null : formatDay(day)];
      }),
    ),
  };
}

const withoutTerms = ({ history, lastUsed }: Run) => ({
  history: history.map((row) => {
    const { environment: _, plan: __, ...rest } = row as Record<string, unknown>;
    return rest;
  }),
  lastUsed,
});

/** One request of an account today, counted upon what was found. */
async function counts(store: QuotaStore, found: Run, name: string): Promise<number> {
  await spend(store, account(name), perDay(1_000));
  const { history } = await toldBy(store, found);
  return (history as { account: string; admitted: number }[])
    .filter((row) => row.account === name)
    .reduce((sum, row) => sum + row.admitted, 0);
}

describe("usage by day and the last use of keys of an earlier version", () => {
  it("are read from its files as it told them, and go on", async (t) => {
    const found = await run("file.json");
    const [state, notes, day] = await Promise.all(
      ["state.json", "state.notes.json", "day.jsonl"].map(text),
    );
    const { start } = await onFiles(
      t,
      { state: state as string, notes, day } as Files,
      found.recordedMs,
    );
    const store = await start();
    assert.deepEqual(await toldBy(store, found), withoutTerms(found));
    assert.equal(await counts(store, found, "ada"), 3);
  });

  it("are read from its Redis as it told them, and go on", async () => {
    const found = await run("redis.json");
    await restore(redis, found.hashes);
    const { store } = await open(server.address, {
      ...{ historyMs: HISTORY_MS, now: () => found.recordedMs },
    });
    try {
      assert.deepEqual(await toldBy(store, found), withoutTerms(found));
      assert.equal(await counts(store, found, "ada"), 3);
    } finally {
      await store.close();
    }
  });

  it("are none where that version kept none, and begin with the next request", async (t) => {
    const files = await recordedRun("file.json");
    const found = { ...files, history: [], lastUsed: {}, hashes: {} } as unknown as Run;
    const { start } = await onFiles(t, { state: await recorded("state.json") }, files.recordedMs);
    const shared = await recordedRun("redis.json");
    await restore(redis, shared.hashes);
    const { store } = await open(server.address, {
      ...{ historyMs: HISTORY_MS, now: () => shared.nowMs },
    });
    try {
      for (const one of [await start(), store]) {
        const { history, lastUsed } = await toldBy(one, found);
        assert.deepEqual(history, []);
        assert.deepEqual(new Set(Object.values(lastUsed)), new Set([null]));
        assert.equal(await counts(one, found, "pro"), 1);
      }
    } finally {
      await store.close();
    }
  });
});

describe("usage by day and the last use of keys of a later version", () => {
  const LATER: readonly [what: string, files: Partial<Files>, why: RegExp][] = [
    [
      "a file of notes",
      { notes: '{"version":9,"used":[],"called":[],"fresh":1}\n' },
      /state\.notes\.json.*version.*this gateway reads version 1.*9/s,
    ],
    [
      "a day with a count that this one does not know",
      {
        day: '{"environment":"production","account":"ada","admitted":1,"units":1,"refused":0,"bytes":7}\n',
      },
      /\.jsonl:1 has "bytes", which this version does not know/,
    ],
  ];
  for (const [what, files, why] of LATER) {
    it(`are refused in words and left as they are: ${what}`, async (t) => {
      const found = await run("file.json");
      const all = { state: await text("state.json"), ...files };
      const { start, paths } = await onFiles(t, all, found.recordedMs);
      await assert.rejects(start(), why);
      for (const name of ["notes", "day"] as const) {
        const content = files[name];
        if (content !== undefined) assert.equal(await readFile(paths[name], "utf8"), content);
      }
    });
  }
});
