import assert from "node:assert/strict";
import { it } from "vitest";
import type { ApiDeps, ApiRequest } from "../../../src/admin/api/api-request.ts";
import { fromReachableStore } from "../../../src/admin/api/reachable-store.ts";
import { showRecordsIdentity } from "../../../src/admin/api/records.ts";
import { jsonResponse } from "../../../src/admin/http/response.ts";

it("each node of a Cluster that is away is logged once a request, however many parts were asked of it", async () => {
  const logged: unknown[] = [];
  const deps = {
    log: { error: (kind: string, { why }: { why: string }) => logged.push([kind, why]) },
  };
  const answer = await fromReachableStore(deps as unknown as ApiDeps, async (onMissing) => {
    onMissing({ node: "a:1", buckets: [1, 4], why: "a is away" });
    onMissing({ node: "b:1", buckets: [2], why: "b is away" });
    onMissing({ node: "a:1", buckets: [1, 4], why: "a is away" });
    return jsonResponse(200, ["some"]);
  });
  assert.deepEqual(logged, [
    ["store_no_answer", "a is away"],
    ["store_no_answer", "b is away"],
  ]);
  assert.deepEqual(answer.fields.slice(-2), [
    "X-Tollgate-Missing",
    "buckets 1 4 at a:1, bucket 2 at b:1",
  ]);
});

it("records that do not say which they are may be asked again in a second", async () => {
  const deps = { keys: { identity: () => Promise.reject(new Error("no answer")) } };
  const { status, body, fields } = await showRecordsIdentity({ deps } as unknown as ApiRequest);
  assert.deepEqual([status, JSON.parse(String(body)).code], [503, "store_unavailable"]);
  assert.deepEqual(fields.slice(fields.indexOf("Retry-After")), ["Retry-After", "1"]);
});
