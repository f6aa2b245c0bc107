import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { isDecision, type RefusalCode } from "../../../src/core/refusal.ts";
import { REFUSALS } from "../../../src/core/refusal-table.ts";
import {
  ACCESS_LOG_FIELDS,
  type AccessLogEntry,
} from "../../../src/telemetry/log/access-log-entry.ts";
import { each } from "../../support/each.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { sendRequest } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const house = await startTestGateway();
afterAll(() => house[Symbol.asyncDispose]());
const { key, account, id } = await house.issue({ plan: "pro" });
/** Well-formed, unknown to the gateway, and never to be read in a log. */
const CANARY = KEY;

async function lineOf(wanted: Parameters<typeof sendRequest>[1]) {
  const from = house.lines.length;
  const answer = await sendRequest(house.port, wanted);
  const endedMs = performance.now();
  const { value: line, stalledMs } = await watchStalls(() => {
    const find = () => house.lines[from] as unknown as Record<string, unknown>;
    return eventually(find, { everyMs: 1 });
  });
  assert.ok(performance.now() - endedMs < 200 + stalledMs, "within 200 ms of its end");
  return { line, answer };
}

test("an admitted request: exactly these members, with these values", async () => {
  const { line, answer } = await lineOf({ key, path: "/v1/pets/7?limit=1" });
  const { level, time, durationMs, ...rest } = line;
  assert.deepEqual(rest, {
    id: onlyValue(answer, "X-Request-Id"),
    env: "production",
    account,
    key: id,
    plan: "pro",
    method: "GET",
    route: "/v1/pets/{petId}",
    path: "/v1/pets/7",
    status: 200,
    source: "backend",
    decision: "admitted",
    charged: 1,
    forwards: 1,
    client: "127.0.0.1",
    upstream: house.backend.origin,
    decidedAt: rest.decidedAt,
    cost: 1,
    strikes: 0,
    config: rest.config,
    msg: "request",
  });
  assert.equal(level, "info");
  assert.ok(Math.abs(Number(time) - Date.now()) < 5_000);
  assert.ok(typeof durationMs === "number" && durationMs > 0 && durationMs < 5_000);
});

test("a refusal says its code, by whom, and what was decided and charged", async () => {
  const small = await house.issue({ limits: { day: 1, week: 1, month: 1 } });
  const cases = [
    [{ key: small.key }, 200, undefined, "backend", "admitted", 1, 1],
    [{ key: small.key }, 429, "rate_limited", "gateway", "refused", 0, 0],
    [{}, 401, "key_missing", "gateway", "none", 0, 0],
    [{ key: CANARY }, 401, "key_invalid", "gateway", "none", 0, 0],
    [{ key, path: "/v1/none" }, 404, "not_found", "gateway", "admitted", 1, 0],
    [{ key, path: "/v1/pets/../a" }, 400, "bad_request", "gateway", "none", 0, 0],
  ] as const;
  for (const [wanted, status, code, source, decision, charged, forwards] of cases) {
    const { line } = await lineOf(wanted);
    const found = [line.status, line.code, line.source, line.decision, line.charged, line.forwards];
    assert.deepEqual(found, [status, code, source, decision, charged, forwards]);
  }
});

test("a refusal tells every window as it was decided, and where; a trace has its id", async () => {
  const one = await house.issue({ plan: "enterprise", limits: { day: 1, week: 5 } });
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const fields = [["traceparent", traceparent]] as const;
  const admitted = await lineOf({ key: one.key, fields });
  assert.equal(admitted.line.windows, undefined);
  assert.equal(admitted.line.traceId, traceparent.slice(3, 35));
  const { line } = await lineOf({ key: one.key, fields });
  const windows = line.windows as [string, number, number, number][];
  const told = windows.map(([name, used, limit]) => [name, used, limit]);
  assert.deepEqual(told, [
    ["day", 1, 1],
    ["week", 1, 5],
  ]);
  for (const [, , , reset] of windows) assert.ok(reset * 1_000 > Number(line.decidedAt));
  assert.deepEqual([line.by, line.cost, line.upstream], ["store", 1, undefined]);
  assert.equal(line.traceId, traceparent.slice(3, 35));
  assert.match(String(line.config), /^[0-9a-f]{8}$/);
});

test("a line has decidedAt and strikes only if windows and ban were asked, and cost if anything was decided", async () => {
  const options = {
    api: null,
    standing: "/v1/_limits",
    costs: [{ match: "GET /v1/pets", cost: 5 }],
  };
  await using own = await startTestGateway({
    environment: options,
    config: { plans: { small: { month: 4 } } },
  });
  const { key: small, account: owner } = await own.issue({ plan: "small" });
  const told = async (wanted: Parameters<typeof sendRequest>[1]) => {
    const from = own.lines.length;
    await sendRequest(own.port, wanted);
    await eventually(() => assert.equal(own.lines.length, from + 1));
    const { code, decision, decidedAt, cost, strikes } = own.lines[from] as AccessLogEntry;
    assert.equal(decidedAt === undefined, strikes === undefined);
    return [code, decision, decidedAt !== undefined, cost];
  };
  assert.deepEqual(await told({ key: small, path: "/v1/a" }), [undefined, "admitted", true, 1]);
  assert.deepEqual(await told({ key: small }), ["cost_over_limit", "refused", false, 5]);
  const standing = { key: small, path: "/v1/_limits" };
  assert.deepEqual(await told(standing), [undefined, "none", false, undefined]);
  assert.deepEqual(await told({}), ["key_missing", "none", false, undefined]);
  const headers = { "Content-Type": "application/json" };
  await own.admin(`/api/accounts/${owner}/suspend`, { method: "POST", headers, body: "{}" });
  const suspended = ["account_suspended", "refused", false, 5];
  await eventually(async () => assert.deepEqual(await told({ key: small }), suspended));
  for (const code of each((Object.keys(REFUSALS) as RefusalCode[]).filter(isDecision))) {
    assert.ok(ACCESS_LOG_FIELDS.decidedAt.absent?.includes(`\`${code}\``), code);
  }
});

test("why a key is invalid, the log knows", async () => {
  const { line } = await lineOf({ key: CANARY });
  assert.equal(line.why, "unknown key");
});

test("no key, and no query, comes into any line, wherever a client puts it", async () => {
  const before = house.lines.length;
  for (const wanted of [
    { key: CANARY },
    { path: `/v1/pets?access_token=${CANARY}` },
    { path: `/v1/pets/${CANARY}` },
    { path: `/v1/${CANARY}/x` },
    { path: `/v1/pets/..?${CANARY}` },
    { path: `/v1//${CANARY.replaceAll("_", "%5F")}` },
    { path: `/v1//${CANARY.replaceAll("_", "%255f")}` },
    { path: `/v1//${[...CANARY].map((one) => `%${one.charCodeAt(0).toString(16)}`).join("")}` },
    { path: `http://${CANARY}/v1/pets` },
    { path: `/v1/pets/%70ets${CANARY.slice(4)}` },
    { method: "POST", body: CANARY, key: CANARY },
    { fields: [["X-Api-Key", CANARY]] as const },
    { fields: [["Authorization", `Basic ${CANARY}`]] as const },
    { host: CANARY },
    { method: CANARY },
    { key, path: `/v1/pets/${CANARY}?q=${CANARY}` },
  ]) {
    await sendRequest(house.port, wanted);
  }
  await eventually(() => assert.ok(house.lines.length >= before + 15));
  const text = JSON.stringify([house.lines, house.said]);
  const plain = text.replace(/%(?:25)*([0-9a-f]{2})/gi, (_, octet) => {
    return String.fromCharCode(Number.parseInt(octet, 16));
  });
  const leaks = plain.split("},").filter((line) => line.includes(CANARY.slice(10)));
  assert.deepEqual(leaks, []);
  assert.ok(!text.includes("access_token") && !text.includes("?q="));
  assert.ok(text.includes("/v1/pets/pets_live_…"), "the rest of the path is there");
  assert.ok(!text.includes(key), "nor the good key");
});

test("the law holds after all of it", () => house.law());
