import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue, valuesOf } from "../../support/wire/response.ts";
import { GHOST, NOON_SECONDS, openNoonHouse, told } from "../noon-house.ts";

const house = await openNoonHouse();
afterAll(() => house[Symbol.asyncDispose]());

test("5 ours replace the backend's X-RateLimit fields; its Link stays beside ours", async () => {
  const { key } = await house.issue();
  house.backend.answer((_seen, response) => {
    response.writeHead(200, [
      ...["x-ratelimit-limit", "7", "X-RateLimit-Remaining", "7", "X-Ratelimit-Reset", "7"],
      ...["Link", '</a>; rel="next"', "X-RateLimit-Limit", "8", "X-Request-Id", "theirs"],
      ...["Sunset", "Sat, 01 Jan 2028 00:00:00 GMT"],
    ]);
    response.end("ok");
  });
  const answer = await sendRequest(house.port, { key, path: "/v1/old" });
  told({ status: 200 }, answer);
  assert.deepEqual(rateLimitFieldsOf(answer), {
    limit: 60,
    remaining: 59,
    reset: NOON_SECONDS + 60,
  });
  assert.deepEqual(valuesOf(answer, "Link"), [
    '</a>; rel="next"',
    '</v1/pets>; rel="successor-version"',
  ]);
  assert.equal(onlyValue(answer, "Sunset"), "Tue, 01 Dec 2026 00:00:00 GMT");
  const plain = await sendRequest(house.port, { key });
  assert.equal(onlyValue(plain, "Sunset"), "Sat, 01 Jan 2028 00:00:00 GMT", "not ours to judge");
  house.backend.answer((_seen, response) => void response.end("ok"));
});

test("5 the deprecation fields are on every refusal of the operation too", async () => {
  const { key } = await house.issue({ limits: { minute: 1 } });
  const path = "/v1/old";
  for (const [wanted, status] of [
    [{ path, key }, 200],
    [{ path, key }, 429],
    [{ path }, 401],
    [{ path, key: GHOST }, 503],
    [{ path, method: "HEAD" }, 401],
  ] as const) {
    const answer = await sendRequest(house.port, wanted);
    assert.equal(answer.status, status);
    assert.equal(onlyValue(answer, "Deprecation"), `@${Date.UTC(2026, 0, 1) / 1_000}`);
    assert.equal(onlyValue(answer, "Sunset"), "Tue, 01 Dec 2026 00:00:00 GMT");
    assert.equal(onlyValue(answer, "Link"), '</v1/pets>; rel="successor-version"');
  }
  await house.law();
});

test("9.3 getPet answers 200 at 2030-12-04T23:59:59.999Z and 410 one millisecond later", async () => {
  let nowMs = Date.UTC(2030, 11, 5) - 1;
  await using other = await startTestGateway({ now: () => nowMs });
  const { key } = await other.issue();
  const before = await sendRequest(other.port, { key, path: "/v1/pets/1" });
  assert.equal(before.status, 200);
  assert.equal(rateLimitFieldsOf(before).remaining, 59);
  nowMs += 1;
  const after = await sendRequest(other.port, { key, path: "/v1/pets/1" });
  told({ status: 410, code: "gone" }, after);
  assert.deepEqual(
    [rateLimitFieldsOf(after).limit, rateLimitFieldsOf(after).remaining],
    [60, 59],
    "a new minute",
  );
  for (const name of ["Deprecation", "Sunset", "Link"]) {
    assert.equal(onlyValue(after, name), onlyValue(before, name));
  }
  assert.match(errorOf(after).message, /^This operation has been removed: see the Link field/);
  assert.equal(other.backend.seen.length, 1);
});

test("a 410 of an operation without a successor sends its client to no Link field", async () => {
  const { key } = await house.issue();
  const answer = await sendRequest(house.port, { key, path: "/v1/gone" });
  assert.deepEqual([answer.status, valuesOf(answer, "Link")], [410, []]);
  assert.equal(errorOf(answer).message, "This operation has been removed");
});

test("Retry-After of a brownout is when the operation is back, or absent if it never is", async () => {
  const { key } = await house.issue();
  const off = await sendRequest(house.port, { key, path: "/v1/off" });
  told({ status: 410, code: "brownout" }, off);
  assert.equal(onlyValue(off, "Retry-After"), String(11 * 60));
  const ending = await sendRequest(house.port, { key, path: "/v1/ending" });
  told({ status: 410, code: "brownout" }, ending);
  assert.deepEqual(valuesOf(ending, "Retry-After"), []);
});
