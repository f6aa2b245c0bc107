import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient, sendRequest } from "../../support/wire/client.ts";
import { onlyValue, valuesOf } from "../../support/wire/response.ts";
import { openNoonHouse } from "../noon-house.ts";

const house = await openNoonHouse();
afterAll(() => house[Symbol.asyncDispose]());

const OLD = "/v1/old";

test("a request that is refused before its route is found still says that its operation goes away", async () => {
  const cases = [
    [417, { fields: [["Expect", "nonsense"]] }],
    [501, { fields: [["Transfer-Encoding", "gzip"]] }],
    [405, { method: "TRACE" }],
    [431, { fields: [["X-Long", "x".repeat(17_000)]] }],
    [414, { path: `${OLD}?${"x".repeat(9_000)}` }],
    [508, { fields: [["Via", "1.1 tollgate, 1.1 tollgate, 1.1 tollgate, 1.1 tollgate"]] }],
  ] as const;
  for (const [status, wanted] of cases) {
    await using client = await openClient(house.port);
    const answer = await client.ask({ path: OLD, host: "gw.test", method: "GET", ...wanted });
    assert.equal(answer.status, status, answer.body.toString());
    const deprecated = status !== 405;
    assert.equal(valuesOf(answer, "Deprecation").length, deprecated ? 1 : 0, String(status));
  }
});

test("TRACE is refused with the methods of its target", async () => {
  const allowOf = async (path: string) => {
    await using client = await openClient(house.port);
    const answer = await client.ask({ method: "TRACE", path, host: "gw.test" });
    assert.equal(answer.status, 405);
    return onlyValue(answer, "Allow");
  };
  assert.equal(await allowOf("/v1/pets"), "GET, HEAD, POST");
  assert.equal(await allowOf(OLD), "GET, HEAD");
  assert.equal(await allowOf("/v1/nothing"), "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
});

test("an environment at the root logs its route with one slash", async () => {
  await using root = await startTestGateway({ environment: { api: null, basePath: "/" } });
  const { key } = await root.issue();
  assert.equal((await sendRequest(root.port, { key, path: "/a/b" })).status, 200);
  await eventually(() => assert.equal(root.lines[0]?.route, "/*"));
});

test("a backend's second Date does not pass: caches reckon ages by the first", async () => {
  await using two = await startTestGateway();
  const first = "Mon, 01 Jun 2026 12:00:00 GMT";
  two.backend.answer((_seen, response) => {
    response.writeHead(200, ["Date", first, "Date", "Tue, 02 Jun 2026 12:00:00 GMT"]);
    response.end("[]");
  });
  const { key } = await two.issue();
  assert.equal(onlyValue(await sendRequest(two.port, { key }), "Date"), first);
});
