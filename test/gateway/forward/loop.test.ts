import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { fieldOf, lastSeen, lawHolds, openAttacked } from "../../attacks/attacked.ts";
import { KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { errorOf, sendRequest } from "../../support/wire/client.ts";
import { valuesOf } from "../../support/wire/response.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

const via = (...values: string[]) => values.map((value) => ["Via", value] as const);
const OURS = "1.1 tollgate";

test("Via is continued with the version received, in one list of all its fields", async () => {
  await sendRequest(house.port, {
    key: KEY,
    fields: via("1.0 fred", "HTTP/1.1 p.example (a comment)"),
  });
  const told = "1.0 fred, HTTP/1.1 p.example (a comment), 1.1 tollgate";
  assert.deepEqual(fieldOf(lastSeen(house), "via"), [told]);
  await sendRequest(house.port, { key: KEY, version: "1.0" });
  assert.deepEqual(fieldOf(lastSeen(house), "via"), ["1.0 tollgate"]);
});

test("three gateways in a row are fine, a fourth pass goes in circles: 508, uncharged", async () => {
  const before = house.backend.seen.length;
  const three = [
    via(OURS, OURS, OURS),
    via([OURS, OURS, OURS].join(", ")),
    via(`${OURS},1.0 a,${OURS}`, OURS),
  ];
  for (const fields of three) {
    assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 200);
  }
  const four = [
    via(OURS, OURS, OURS, OURS),
    via([OURS, OURS, OURS, OURS].join(",")),
    via(`1.0 a, ${OURS}, 1.1 b, ${OURS} (x)`, `1.0 tollgate,${OURS}`),
    via(...Array<string>(50).fill(OURS)),
  ];
  for (const fields of four) {
    const answer = await sendRequest(house.port, { key: KEY, fields });
    assert.deepEqual([answer.status, errorOf(answer).code], [508, "loop_detected"]);
    assert.equal(valuesOf(answer, "X-RateLimit-Limit").length, 1);
    assert.match(valuesOf(answer, "X-Request-Id").join(), /^[0-9a-f-]{36}$/);
    assert.equal(
      (await sendRequest(house.port, { fields })).status,
      508,
      "before the key is looked at",
    );
  }
  assert.equal(house.backend.seen.length, before + three.length);
});

test("names that only look like ours are no passes", async () => {
  const others = [
    "1.1 tollgates",
    "1.1 my-tollgate",
    "1.1 tollgate.example",
    "1.1 other (tollgate)",
    "tollgate",
    "1.1",
  ];
  const fields = via(...others, ...others, ...others);
  assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 200);
});

test("a backend that sends each request back ends in 508, after four passes", async () => {
  const from = house.lines.length;
  house.backend.answer(async (seen, response) => {
    const fields = via(...fieldOf(seen, "via"));
    const inner = await sendRequest(house.port, { key: KEY, fields });
    response.writeHead(inner.status).end(inner.body);
  });
  const answer = await sendRequest(house.port, { key: KEY });
  assert.equal(answer.status, 508);
  await eventually(() => assert.equal(house.lines.length, from + 5));
  const lines = house.lines.slice(from);
  assert.equal(lines.filter(({ forwards }) => forwards === 1).length, 4);
  assert.deepEqual(
    lines.filter(({ forwards }) => forwards === 0).map(({ code, charged }) => [code, charged]),
    [["loop_detected", 0]],
  );
});

test("the law holds after all of it", () => lawHolds(house));
