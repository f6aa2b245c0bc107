import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, rmdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "vitest";
import { openKeyStore } from "../../../../src/stores/open-stores.ts";
import { createMemoryQuotaStore } from "../../../../src/stores/quotas/memory/create-memory-quota-store.ts";
import { encodeState } from "../../../../src/stores/quotas/memory/state-file.ts";
import type { Reporter } from "../../../../src/telemetry/log/log.ts";
import { loadLines } from "../../../config/folder.ts";

const REDIS = "store: redis://127.0.0.1:1";

async function newState() {
  const directory = await mkdtemp(join(tmpdir(), "tollgate-left-"));
  const stateFile = join(directory, "state.json");
  const told: string[] = [];
  const report: Reporter = (_, event, details) => {
    told.push(`${event} ${(details as { why?: string } | undefined)?.why}`);
  };
  const now = Date.now;
  const start = async (store: string, { watch = true, writesCopy = true } = {}) => {
    const keys = { in: "file", path: join(directory, "keys.json") } as const;
    const config = { ...(await loadLines(store)), stateFile, keys };
    await (await openKeyStore(config, { now, report, watch, writesCopy })).close();
  };
  const states = async () =>
    (await readdir(directory)).filter((name) => /^state\.json(?!\.lock)/.test(name));
  const clean = () => rm(directory, { recursive: true, force: true });
  return { stateFile, told, report, start, states, [Symbol.asyncDispose]: clean };
}

it("counts that run on in stateFile are moved aside and told, once, by the start of a gateway with Redis and a key file", async () => {
  await using state = await newState();
  const { stateFile, report, told } = state;
  const memory = await createMemoryQuotaStore({ stateFile, now: Date.now, report });
  const accountRef = { environment: "production", account: "a" };
  const quotaRequest = { limits: [{ window: "year", limit: 9 }], bans: undefined } as const;
  void memory.charge(accountRef, { ...quotaRequest, requests: 1 });
  assert.equal(await memory.whyUnsaved(), undefined);
  await state.start(REDIS);
  assert.deepEqual(told, [], "the gateway that has it open still runs");
  await memory.close();
  const text = await readFile(stateFile, "utf8");

  await state.start("store: memory");
  await state.start(REDIS, { watch: false });
  await state.start(REDIS, { writesCopy: false });
  assert.deepEqual([told, await state.states()], [[], ["state.json"]]);
  await state.start(REDIS);
  await state.start(REDIS);
  const [aside = "", ...others] = await state.states();
  assert.deepEqual([told.length, others], [1, []]);
  assert.match(
    told[0] ?? "",
    /^state_elsewhere .* had counts and bans of .* with store: memory\. None/,
  );
  assert.match(told[0] ?? "", new RegExp(`put .*/${aside} in its place`));
  assert.match(aside, /^state\.json\.elsewhere\.\d+$/);
  assert.equal(await readFile(join(stateFile, "..", aside), "utf8"), text);

  await writeFile(stateFile, text);
  await state.start(REDIS);
  assert.equal(told.length, 2, "nothing of that start holds the file");
});

it("counts that run on in a stateFile that cannot be moved are told at each start, and stay there", async () => {
  await using state = await newState();
  const { stateFile, told } = state;
  const ban = { untilMs: Date.now() + 3_600_000, lengthMs: 60_000, offences: 1 };
  const account = { usage: {}, strikesMs: [], ban: { ...ban, window: "minute" } } as const;
  const saved = { environment: "production", account: "a", state: account };
  const text = [...encodeState([saved])].join("");
  await writeFile(stateFile, text);
  // Nobody can take its lock then, the administrator of the machine included.
  await mkdir(`${stateFile}.lock`);
  await state.start(REDIS);
  await state.start(REDIS);
  const [why = "", again, ...others] = told;
  assert.deepEqual([again, others, await state.states()], [why, [], ["state.json"]]);
  assert.equal(await readFile(stateFile, "utf8"), text);
  assert.match(
    why,
    /^state_elsewhere .* has counts and bans of .* cannot be moved aside: Cannot lock/,
  );
  assert.match(why, /None of them is in force: .* bans add.* move it by hand/);
  await rmdir(`${stateFile}.lock`);
  await state.start(REDIS);
  assert.match(told[2] ?? "", /^state_elsewhere .* had counts and bans of /);
  assert.deepEqual((await state.states()).length, 1);
});

it("a stateFile in which nothing runs on, or that is damaged or of keys, stays as it is", async () => {
  await using state = await newState();
  const over = { startMs: Date.UTC(2020, 0), count: 3, refusedMs: 0 };
  const ban = { untilMs: over.startMs, lengthMs: 60_000, window: "minute", offences: 1 } as const;
  const account = { usage: { day: over }, strikesMs: [over.startMs], ban };
  const saved = { environment: "production", account: "a", state: account };
  const texts = [
    [...encodeState([saved])].join(""),
    '{"version":1,"accounts":[{]}',
    '{"version":1,"keys":[],"accounts":[]}',
  ];
  for (const text of texts) {
    await writeFile(state.stateFile, text);
    await state.start(REDIS);
    assert.deepEqual([state.told, await state.states()], [[], ["state.json"]]);
    assert.equal(await readFile(state.stateFile, "utf8"), text);
  }
  const running = {
    ...saved,
    state: { ...account, ban: { ...ban, untilMs: Date.now() + 60_000 } },
  };
  await writeFile(state.stateFile, [...encodeState([running])].join(""));
  await state.start(REDIS);
  assert.equal(state.told.length, 1, "its ban runs on");
});
