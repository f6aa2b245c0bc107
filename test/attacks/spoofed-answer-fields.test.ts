import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { sendRequest } from "../support/wire/client.ts";
import { onlyValue, valuesOf } from "../support/wire/response.ts";

test("a backend's own rate limit fields never stand beside or in place of the gateway's", async () => {
  await using house = await startTestGateway();
  house.backend.answer((_seen, response) => {
    for (const name of ["Limit", "Remaining", "Reset", "Window", "Cost"]) {
      response.setHeader(`X-RateLimit-${name}`, ["lies", "more"]);
    }
    response.setHeader("x-request-id", "lies");
    response.end("[]");
  });
  const { key } = await house.issue();
  const answer = await sendRequest(house.port, { key });
  assert.equal(onlyValue(answer, "X-RateLimit-Limit"), "60");
  assert.equal(onlyValue(answer, "X-RateLimit-Remaining"), "59");
  assert.equal(onlyValue(answer, "X-RateLimit-Window"), "minute");
  assert.match(onlyValue(answer, "X-RateLimit-Reset"), /^\d{10}$/);
  assert.deepEqual(valuesOf(answer, "X-RateLimit-Cost"), [], "a cost of 1 is not told");
  assert.notEqual(onlyValue(answer, "X-Request-Id"), "lies");
  assert.doesNotMatch(JSON.stringify(answer), /lies/);
  await house.law();
});
