import assert from "node:assert/strict";
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers/promises";
import { it, vi } from "vitest";
import { cleanText } from "../../../src/base/messages.ts";
import { openGatewayRecords } from "../../../src/cli/access/gateway-records.ts";
import type { Config } from "../../../src/config/config.ts";
import type { Records } from "../../../src/core/keys/records.ts";
import { recordLines } from "../../../src/stores/keys/file/export-records.ts";
import { openAdmin, send } from "./admin-server.ts";

const ADDED = { id: "acme", environment: "production", plan: "free", limits: [], meta: {} };
/** The records that another writer has left after the first look. */
const OTHERS = [...recordLines({ keys: [], accounts: [{ ...ADDED, id: "other", createdMs: 0 }] })]
  .map((line) => `${line}\n`)
  .join("");

/** A gateway without records at first, and what answers changes of them. It tells them `reads` times. */
async function openRecords(
  statuses: readonly number[],
  { reads = Number.POSITIVE_INFINITY, told = (status: number) => `Told ${status}` } = {},
) {
  let read = 0;
  const left = [...statuses];
  const admin = await openAdmin((response, { asked }) => {
    if (asked.startsWith("GET") && ++read > reads) return send(response, 503, { message: "Away" });
    if (asked === "GET /api/keys/export") return void response.end(read === 1 ? "" : OTHERS);
    if (asked === "GET /api/records") return send(response, 200, { id: null, place: "there" });
    const status = left.shift() ?? 500;
    send(
      response,
      status,
      status === 200 ? { changed: 1 } : { code: "told", message: told(status) },
    );
  });
  const config = admin.config as unknown as Config;
  const records = await openGatewayRecords(config, Date.now).catch(async (error: unknown) => {
    await admin[Symbol.asyncDispose]();
    throw error;
  });
  return { admin, records };
}

const add = (before: Records) => ({
  records: { ...before, accounts: [...before.accounts, { ...ADDED, createdMs: 0 }] },
  result: "done",
});

it("a change of records at a gateway is made again with what another writer left, and told once", async () => {
  const { admin, records } = await openRecords([409, 409, 200]);
  await using _ = admin;
  let told = 0;
  records.onChange(() => {
    told += 1;
  });
  assert.equal(await records.change(add), "done");
  const left = records.records().accounts.map(({ id }) => id);
  assert.deepEqual([told, left], [1, ["other", "acme"]]);
  const asked = admin.questions.map((one) => one.asked);
  const again = ["PATCH /api/records", "GET /api/keys/export"];
  assert.deepEqual(asked, [
    "GET /api/keys/export",
    "GET /api/records",
    ...again,
    ...again,
    "PATCH /api/records",
  ]);
});

it("a change of records at a gateway that has another reason is not made again, and none is not sent", async () => {
  const { admin, records } = await openRecords([500]);
  await using _ = admin;
  const unchanged = await records.change((before) => ({ records: before, result: "same" }));
  assert.deepEqual([unchanged, admin.questions.length], ["same", 2]);
  await assert.rejects(records.change(add), { message: "Told 500" });
  assert.deepEqual([admin.questions.length, records.records().accounts], [3, []]);
  assert.deepEqual(await records.identity(), { id: undefined, place: "there" });
});

it("a change of records at a gateway that a damaged record forbids is not made again", async () => {
  const words = "Cannot use the ID acme: the record that has it is damaged, repair it";
  const { admin, records } = await openRecords([409, 200], { told: () => words });
  await using _ = admin;
  await assert.rejects(records.change(add), { message: words });
  assert.equal(admin.questions.filter(({ asked }) => asked.startsWith("PATCH")).length, 1);
});

it("a change of records at a gateway is tried 100 times, and no more", async (t) => {
  const { admin, records } = await openRecords([...Array(100).fill(409), 200]);
  await using _ = admin;
  // The longest pauses that can be drawn, none of which is waited for.
  vi.spyOn(Math, "random").mockReturnValue(1);
  const pause = vi.spyOn(timers, "setTimeout").mockImplementation(async () => undefined as never);
  syncBuiltinESMExports();
  t.onTestFinished(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });
  await assert.rejects(records.change(add), { message: "Told 409" });
  const changes = admin.questions.filter(({ asked }) => asked.startsWith("PATCH"));
  assert.equal(changes.length, 100);
  const pauses = pause.mock.calls.map(([ms]) => ms);
  assert.deepEqual([pauses.length, pauses.slice(0, 3)], [99, [10, 20, 30]]);
  assert.deepEqual([pauses[18], pauses[19], pauses[20], pauses.at(-1)], [190, 200, 200, 200]);
});

it("records of a gateway that cannot be read are told with its reason", async () => {
  await assert.rejects(openRecords([], { reads: 0 }), { message: "Away" });
  const { admin, records } = await openRecords([], { reads: 1 });
  await using _ = admin;
  await assert.rejects(records.identity(), { message: "Away" });
});

it("damaged records are told with their places, and none by a gateway that does not know", async () => {
  for (const [told, damage] of [
    [{ damaged: ["keys.json:3:1: Cannot use keys[0]"] }, ["keys.json:3:1: Cannot use keys[0]"]],
    [{ damaged: ["\u001b[31m"] }, [cleanText("\u001b[31m")]],
    [{ damaged: [] }, []],
    [{}, []],
  ]) {
    await using admin = await openAdmin((response, { asked }) => {
      if (asked === "GET /api/keys/export") return void response.end("");
      send(response, 200, { id: null, place: "there", ...told });
    });
    const records = await openGatewayRecords(admin.config as unknown as Config, Date.now);
    assert.deepEqual(records.damage(), damage);
  }
});
