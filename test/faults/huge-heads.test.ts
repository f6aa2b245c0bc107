import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { lastSeen, lawHolds, openAttacked } from "../attacks/attacked.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { KEY } from "../support/gateway/served.ts";
import { errorOf, openClient, sendRequest } from "../support/wire/client.ts";

/** It takes what the gateway lets through, and what that adds. */
const backend = await startTestUpstream(undefined, { maxHeaderSize: 65_536 });
const house = await openAttacked({ backend, environment: { api: null } });
afterAll(() => house[Symbol.asyncDispose]());

const URL_BYTES = 8_192;
const HEADER_BYTES = 16_384;
const FIELDS = 100;

test("2.3 Huge headers: a target of 8 KiB passes, one byte more is 414, query or path", async () => {
  for (const start of ["/v1/", "/v1/a?"]) {
    const whole = start.padEnd(URL_BYTES, "b");
    assert.equal((await sendRequest(house.port, { key: KEY, path: whole })).status, 200);
    assert.equal(lastSeen(house).target, whole);
    const longer = await sendRequest(house.port, { key: KEY, path: `${whole}b` });
    assert.equal(errorOf(longer).code, "uri_too_long");
  }
});

test("2.3 Huge headers: 100 fields pass, 101 are 431; the two of the request count", async () => {
  const fields = (count: number) =>
    Array.from({ length: count - 2 }, (_, i) => [`X-${i}`, "a"] as const);
  assert.equal((await sendRequest(house.port, { key: KEY, fields: fields(FIELDS) })).status, 200);
  const more = await sendRequest(house.port, { key: KEY, fields: fields(FIELDS + 1) });
  assert.equal(errorOf(more).code, "headers_too_large");
});

test("2.3 Huge headers: fields of 16 KiB with their colons and line ends pass, one byte more is 431", async () => {
  const rest = [
    ["Host", "gw.test"],
    ["Authorization", `Bearer ${KEY}`],
    ["X-A", ""],
  ].reduce((sum, parts) => sum + parts.join("").length + 4, 0);
  for (const [length, status] of [
    [HEADER_BYTES - rest, 200],
    [HEADER_BYTES - rest + 1, 431],
  ] as const) {
    const fields = [["X-A", "a".repeat(length)]] as const;
    assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, status, `${length}`);
  }
});

test("2.3 Huge headers: far beyond, in one field, many or the target: answered and closed, and nothing is kept", async () => {
  const heads = {
    "a field of 200 KB": `GET /v1/a HTTP/1.1\r\nHost: a\r\nX-A: ${"a".repeat(200_000)}\r\n\r\n`,
    "50,000 fields": `GET /v1/a HTTP/1.1\r\nHost: a\r\n${"a:b\r\n".repeat(50_000)}\r\n`,
    "a target of 200 KB": `GET /v1/${"a".repeat(200_000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
    "a name of 200 KB": `GET /v1/a HTTP/1.1\r\nHost: a\r\n${"a".repeat(200_000)}: b\r\n\r\n`,
    "a method of 200 KB": `${"G".repeat(200_000)} /v1/a HTTP/1.1\r\nHost: a\r\n\r\n`,
  };
  for (const [name, head] of Object.entries(heads)) {
    await using client = await openClient(house.port);
    client.write(head);
    const [answer] = await client.responses(["GET"]);
    assert.ok([400, 414, 431, 501].includes(answer?.status ?? 0), `${name}: ${answer?.status}`);
    await client.ended;
  }
});

test("the law holds after all of it", () => lawHolds(house));
