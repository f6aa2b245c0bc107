import assert from "node:assert/strict";
import { it } from "vitest";
import { type ApiDeps, type ApiRequest, applyEdit } from "../../../src/admin/api/api-request.ts";
import { listGateways } from "../../../src/admin/api/gateway-state.ts";
import { fromReachableStore } from "../../../src/admin/api/reachable-store.ts";
import { showRecordsIdentity } from "../../../src/admin/api/records.ts";
import { jsonResponse, withoutWorkers } from "../../../src/admin/http/response.ts";

it("each node of a Cluster that is away is logged once a request, however many parts were asked of it", async () => {
  const logged: unknown[] = [];
  const deps = {
    log: { error: (kind: string, { why }: { why: string }) => logged.push([kind, why]) },
  };
  const response = await fromReachableStore(deps as unknown as ApiDeps, async (onMissing) => {
    onMissing({ node: "a:1", buckets: [1, 4], why: "a is away" });
    onMissing({ node: "b:1", buckets: [2], why: "b is away" });
    onMissing({ node: "a:1", buckets: [1, 4], why: "a is away" });
    return { ...jsonResponse(200, ["some"]), fields: ["X-Total-Count", "1"] };
  });
  assert.deepEqual(logged, [
    ["store_no_answer", "a is away"],
    ["store_no_answer", "b is away"],
  ]);
  assert.deepEqual(response.fields, [
    ...["X-Total-Count", "1", "X-Tollgate-Missing"],
    "buckets 1 4 at a:1, bucket 2 at b:1",
  ]);
});

it("an answer that lacks buckets and workers names both in one field", async () => {
  const deps = { log: { error: () => {} } } as unknown as ApiDeps;
  const response = await fromReachableStore(deps, async (onMissing) => {
    onMissing({ node: "a:1", buckets: [1], why: "a is away" });
    return jsonResponse(200, ["some"]);
  });
  const { fields } = withoutWorkers(response, [2]);
  assert.deepEqual(fields, ["X-Tollgate-Missing", "bucket 1 at a:1, worker 2"]);
});

it("a store that is away answers 503 with the reason, which is logged too, as one does of which no part can be reached", async () => {
  const logged: unknown[] = [];
  const deps = { log: { error: (...line: unknown[]) => logged.push(line) } } as unknown as ApiDeps;
  const away = () => Promise.reject(new Error("no rights"));
  for (const [response, why] of [
    [await fromReachableStore(deps, away), "no rights"],
    [
      await fromReachableStore(deps, async (onMissing) => {
        onMissing({ node: "a:1", buckets: [0, 1, 2, 3, 4, 5, 6, 7, 8], why: "a is away" });
        onMissing({ node: "b:1", buckets: [9, 10, 11, 12, 13, 14, 15], why: "b is away" });
        return jsonResponse(200, []);
      }),
      "no part of it can be reached",
    ],
  ] as const) {
    const { status, body, fields } = response;
    const { message } = JSON.parse(String(body));
    assert.deepEqual([status, message], [503, `The rate limit store is unavailable: ${why}`]);
    assert.deepEqual(fields.slice(fields.indexOf("Retry-After")), ["Retry-After", "1"]);
  }
  const whys = ["no rights", "a is away", "b is away", "no part of it can be reached"];
  assert.deepEqual(
    logged,
    whys.map((why) => ["store_no_answer", { why }]),
  );
});

it("records that do not say which they are may be asked again in a second", async () => {
  const deps = { keys: { identity: () => Promise.reject(new Error("no answer")) } };
  const { status, body, fields } = await showRecordsIdentity({ deps } as unknown as ApiRequest);
  const { code, message } = JSON.parse(String(body));
  assert.deepEqual([status, code], [503, "store_unavailable"]);
  assert.match(
    message,
    /^The key records cannot be asked which they are: the store is unreachable/,
  );
  assert.deepEqual(fields.slice(fields.indexOf("Retry-After")), ["Retry-After", "1"]);
});

it("records that may not be written tell that they have no id", async () => {
  const deps = {
    keys: { identity: async () => ({ id: undefined, place: "./keys.json" }), damage: () => [] },
  };
  const { body } = await showRecordsIdentity({ deps } as unknown as ApiRequest);
  assert.deepEqual(JSON.parse(String(body)), { id: null, place: "./keys.json", damaged: [] });
});

it("a change of records that fails for another reason than its store is an error in the log, and its reason stands there alone", async () => {
  const logged: unknown[] = [];
  const keys = { change: () => Promise.reject(new Error("the disk is full")) };
  const deps = { keys, log: { error: (...line: unknown[]) => logged.push(line) } };
  const request = { deps, onUnanswered: () => {} } as unknown as ApiRequest;
  const edited = await applyEdit(request, () => assert.fail("no records"));
  assert.ok(!edited.ok);
  assert.doesNotMatch(String(edited.response.body), /disk/);
  assert.deepEqual(logged, [["keys_unchanged", { why: "the disk is full" }]]);
});

it("the gateways of a store are told page by page, in the order of their names", async () => {
  const list = async () =>
    ["b", "c", "a"].map((name) => ({ name, status: statusOf(name), ageMs: 0 }));
  const deps = { quotas: { gateways: { list } }, name: "a" };
  const found: [name: string, self: boolean][] = [];
  for (let query: string | undefined = "limit=1"; query !== undefined; ) {
    const call = { deps, query: new URLSearchParams(query) };
    const { body, fields } = await listGateways(call as unknown as ApiRequest);
    for (const { name, self } of JSON.parse(String(body))) found.push([name, self]);
    query = /<\/api\/gateways\?(.*)>; rel="next"/.exec(fields.join())?.[1];
  }
  assert.deepEqual(found, [
    ["a", true],
    ["b", false],
    ["c", false],
  ]);
});

function statusOf(name: string): string {
  const rates = { requestsPerSecond: 0, refusalsPerSecond: 0, storeMs: null };
  return JSON.stringify({
    ...{ name, version: "1", config: "c", started: 1, ...rates },
    ...{ state: "ready", why: null },
  });
}
