import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { errorOf, openClient, sendRequest } from "../support/wire/client.ts";
import { fieldOf, lastSeen, lawHolds, openAttacked } from "./attacked.ts";

const house = await openAttacked({ environment: { hosts: ["api.test", "other.test"] } });
afterAll(() => house[Symbol.asyncDispose]());

const OURS = ["api.test", "API.Test", "api.test:8080", "api.test:", "other.test:443"];
/** The same names, written as complete ones of DNS (RFC 3986 3.2.2). nginx serves them too. */
const COMPLETE = ["api.test.", "API.Test.", "api.test.:8080"];

for (const host of [...OURS, ...COMPLETE]) {
  test(`Host: ${host} is served, and the backend sees its own`, async () => {
    assert.equal((await sendRequest(house.port, { key: KEY, host })).status, 200);
    assert.deepEqual(fieldOf(lastSeen(house), "host"), [`127.0.0.1:${house.backend.port}`]);
    assert.deepEqual(fieldOf(lastSeen(house), "x-forwarded-host"), [host]);
  });
}

const MISDIRECTED = [
  ...[
    "evil.test",
    "api.test.evil.test",
    "evil-api.test",
    "xapi.test",
    "api.tes",
    "api",
    "api.test..",
    ".api.test",
    ".",
  ],
  ...["127.0.0.1", "localhost", "[::1]", "test", "a.api.test"],
];
for (const host of MISDIRECTED) {
  test(`Host: ${host} is 421: hosts are compared whole`, async () => {
    const before = house.backend.seen.length;
    assert.equal(errorOf(await sendRequest(house.port, { key: KEY, host })).code, "misdirected");
    assert.equal(house.backend.seen.length, before);
  });
}

const MALFORMED = [
  ...["", "a b", "a,b", "a@api.test", "api.test/x", "api.test?x", "api.test#x", "api.test:http"],
  ...[
    "api.test:99999",
    "api.test:80:80",
    "[::1",
    "\xe9.test",
    "api.test\tx",
    "http://api.test",
    "a%20b",
  ],
];
for (const host of MALFORMED) {
  test(`Host: ${JSON.stringify(host)} is 400`, async () => {
    assert.equal(errorOf(await sendRequest(house.port, { key: KEY, host })).code, "bad_request");
  });
}

test("no Host, or two, the same or not, next to each other or not, is 400", async () => {
  const hosts = [null, "api.test"] as const;
  assert.equal((await sendRequest(house.port, { key: KEY, host: null })).status, 400);
  assert.equal(
    (await sendRequest(house.port, { key: KEY, host: null, version: "1.0" })).status,
    400,
  );
  for (const second of ["api.test", "evil.test", ""]) {
    for (const host of hosts.slice(1)) {
      const fields = [
        ["X-A", "b"],
        ["hOST", second],
      ] as const;
      assert.equal((await sendRequest(house.port, { key: KEY, host, fields })).status, 400);
    }
  }
});

test("an absolute target does not overrule Host: they must say the same", async () => {
  const path = "http://api.test/v1/pets";
  assert.equal((await sendRequest(house.port, { key: KEY, host: "api.test", path })).status, 200);
  assert.equal((await sendRequest(house.port, { key: KEY, host: "other.test", path })).status, 400);
  assert.equal((await sendRequest(house.port, { key: KEY, host: "evil.test", path })).status, 421);
});

test("each request of a connection is judged by its own Host", async () => {
  await using client = await openClient(house.port);
  assert.equal((await client.ask({ key: KEY, host: "api.test" })).status, 200);
  assert.equal((await client.ask({ key: KEY, host: "evil.test" })).status, 421);
});

test("the law holds after all of it", () => lawHolds(house));
