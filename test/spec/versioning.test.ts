import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { afterAll, test } from "vitest";
import { parse } from "yaml";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue, valuesOf } from "../support/wire/response.ts";

const SUNSET_MS = Date.UTC(2030, 11, 5);
let nowMs = SUNSET_MS - 60_000;
const house = await startPetsGateway({ now: () => nowMs });
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "pro" });
await sendRequest(house.port, { method: "POST", key, body: '{"name":"Ada","categoryId":1}' });

const shipped = new URL("../../config/", import.meta.url);
const description = parse(await readFile(new URL("pets.openapi.yaml", shipped), "utf8"));

test("9.1 the API description version is 1.0.0", () => {
  assert.equal(description.info.version, "1.0.0");
});

test("9.2 the major version is in the base path /v1, for production and staging", async () => {
  const config = parse(await readFile(new URL("tollgate.yaml", shipped), "utf8"));
  const paths = Object.entries(config.environments as Record<string, { basePath: string }>);
  assert.deepEqual(
    paths.map(([name, { basePath }]) => [name, basePath]),
    [
      ["production", "/v1"],
      ["staging", "/v1"],
    ],
  );
  assert.equal((await sendRequest(house.port, { key, path: "/v2/pets" })).status, 404);
});

test("9.3 GET /pets/{petId} is deprecated, and removed on 5 December 2030", async () => {
  const wanted = { key, path: "/v1/pets/1" };
  const sunset = "Thu, 05 Dec 2030 00:00:00 GMT";
  nowMs = SUNSET_MS - 1;
  const last = await sendRequest(house.port, wanted);
  assert.deepEqual([last.status, onlyValue(last, "Sunset")], [200, sunset]);
  const before = house.upstream.seen.length;
  nowMs = SUNSET_MS;
  const gone = await sendRequest(house.port, wanted);
  assert.deepEqual([gone.status, errorOf(gone).code], [410, "gone"]);
  assert.equal(onlyValue(gone, "Sunset"), sunset);
  assert.match(onlyValue(gone, "Link"), /rel="successor-version"/);
  assert.equal(house.upstream.seen.length, before, "nothing of it came to the backend");
  assert.equal((await sendRequest(house.port, { key, path: "/v1/pets?status=sold" })).status, 200);
});

test("9.4 an endpoint's stability marker and deprecation flag are told in its answers", async () => {
  const api = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /pets:
    get: { operationId: a, x-stability-level: beta, responses: {} }
    post: { operationId: b, x-stability: experimental, deprecated: true, x-sunset: 2031-01-01, x-deprecated-since: "2026-01-01", responses: {} }
  /pets/{petId}:
    get: { operationId: c, responses: {} }
`;
  await using other = await startPetsGateway({
    files: { "api.yaml": api },
    api: "./api.yaml",
    now: () => nowMs,
  });
  const { key } = await other.issue();
  const list = await sendRequest(other.port, { key });
  assert.deepEqual([list.status, onlyValue(list, "X-API-Stability")], [200, "beta"]);
  const add = await sendRequest(other.port, { method: "POST", key, body: "{}" });
  assert.deepEqual([add.status, onlyValue(add, "X-API-Stability")], [400, "experimental"]);
  assert.equal(onlyValue(add, "Sunset"), "Wed, 01 Jan 2031 00:00:00 GMT");
  const get = await sendRequest(other.port, { key, path: "/v1/pets/1" });
  assert.deepEqual([get.status, valuesOf(get, "X-API-Stability")], [404, []]);
  await other.law();
});
