import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { sendRaw } from "../support/wire/raw.ts";
import { parseResponses } from "../support/wire/response.ts";
import { fieldOf, lastSeen, lawHolds, openAttacked } from "./attacked.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

const CONTROLS = ["\r", "\n", "\0", "\x01", "\x0b", "\x1b", "\x7f", "\n X-Evil: 1", "\rX-Evil: 1"];

test("a control in a value, a name or the target: 400 and closed, nothing at the backend", async () => {
  const before = house.backend.seen.length;
  for (const control of CONTROLS) {
    const heads = [
      `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nX-A: b${control}c\r\n\r\n`,
      `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nX-${control}A: b\r\n\r\n`,
      `GET /v1/pets?a=${control}b HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n\r\n`,
      `GET /v1/pets HTTP/1.1\r\nHost: a${control}\r\nAuthorization: Bearer ${KEY}\r\n\r\n`,
    ];
    for (const head of heads) {
      const { bytes, ended } = await sendRaw(house.port, head);
      const { responses, problem } = parseResponses(bytes, { closed: true });
      assert.deepEqual([problem, responses.length, ended], [undefined, 1, "closed"], head);
      assert.equal(responses[0]?.status, 400, JSON.stringify(head));
    }
  }
  assert.equal(house.backend.seen.length, before);
});

test("a client's request id goes on only as a plain token of at most 128, and is never echoed", async () => {
  const plain = ["a", "A-Z_a.z:0~9", "x".repeat(128)];
  const odd = ["x".repeat(129), "a b", "\xe9", "a\tb", ""];
  for (const id of [...plain, ...odd]) {
    const answer = await sendRequest(house.port, { key: KEY, fields: [["X-Request-Id", id]] });
    const ours = answer.fields.filter(([name]) => name === "X-Request-Id");
    assert.match(
      ours.map(([, value]) => value).join(),
      /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    );
    assert.deepEqual(fieldOf(lastSeen(house), "x-request-id"), [ours[0]?.[1]]);
    const theirs = fieldOf(lastSeen(house), "x-client-request-id");
    assert.deepEqual(theirs, plain.includes(id) ? [id] : [], JSON.stringify(id));
  }
  const twice = [
    ["X-Client-Request-Id", "evil"],
    ["X-Request-Id", "good"],
  ] as const;
  await sendRequest(house.port, { key: KEY, fields: twice });
  assert.deepEqual(fieldOf(lastSeen(house), "x-client-request-id"), ["good"]);
});

test("what we write ourselves is printable ASCII, whatever the client sent", async () => {
  const fields = [
    ["X-Request-Id", "\xff\xfe"],
    ["traceparent", "\xe9"],
    ["tracestate", "\xe9=\xe9"],
    ["X-Forwarded-For", "\xe9"],
    ["X-Forwarded-Host", "\xe9"],
  ] as const;
  const answer = await sendRequest(house.port, { key: KEY, fields });
  for (const [name, value] of answer.fields) assert.match(value, /^[\x20-\x7e]*$/, name);
  const { rawHeaders } = lastSeen(house);
  for (const part of rawHeaders) assert.match(part, /^[\x20-\x7e]*$/);
});

test("the law holds after all of it", () => lawHolds(house));
