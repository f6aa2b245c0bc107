import assert from "node:assert/strict";
import fc from "fast-check";
import { afterAll, test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { errorOf, openClient } from "../support/wire/client.ts";
import { lastSeen, lawHolds, openAttacked } from "./attacked.ts";

/** Everything under /v1 passes: what is judged is the path, and not the routes. */
const house = await openAttacked({ environment: { api: null } });
afterAll(() => house[Symbol.asyncDispose]());

/** Another reader of these could see another path: refused before the key, at no cost. */
const AMBIGUOUS = [
  ...["/v1/pets/../admin", "/v1/pets/..", "/v1/./pets", "/v1/pets/.", "/../v1/pets", "/v1//pets"],
  ...["//v1/pets", "/v1/pets//", "/v1/%2e%2e/admin", "/v1/%2E./admin", "/v1/.%2e", "/v1/%2e"],
  ...[
    "/v1/a%2fb",
    "/v1/a%2Fb",
    "/v1/a%5cb",
    "/v1/a\\b",
    "/v1\\..\\admin",
    "/v1/a%00b",
    "/v1/%252e",
  ],
  ...[
    "/v1/a%25b",
    "/v1/a%",
    "/v1/a%4",
    "/v1/a%zz",
    "/v1/%c0%ae",
    "/v1/%c0%af",
    "/v1/%ff",
    "/v1/%ed%a0%80",
  ],
  ...["/v1/pets#a", "/v1/p\xe9ts", "/v1/pets/%e0%80%af", "/v1/..%2fadmin", "/v1/%u002e"],
];

for (const path of AMBIGUOUS) {
  test(`${JSON.stringify(path)}: 400, uncharged, nothing at the backend`, async () => {
    const before = house.backend.seen.length;
    await using client = await openClient(house.port);
    const answer = await client.ask({ key: KEY, path });
    assert.equal(errorOf(answer).code, "bad_request");
    assert.equal(house.backend.seen.length, before);
  });
}

const PLAIN = [
  ...[
    "/v1",
    "/v1/",
    "/v1/a;b=c",
    "/v1/a;../b",
    "/v1/..a",
    "/v1/a..",
    "/v1/...",
    "/v1/.a",
    "/v1/a/",
  ],
  ...[
    "/v1/%61",
    "/v1/%c3%a9",
    "/v1/%7E",
    "/v1/%20",
    "/v1/a+b",
    "/v1/a:b@c",
    "/v1/a?b//../%2e%00\\",
  ],
  ...[
    "/v1/a?",
    "/v1/?a=%zz",
    "/v1/pets?a#b".slice(0, -2),
    '/v1/"{}|^`',
    "/v1/a,b",
    "/v1/*",
    "/v1/~",
  ],
];

/** The normal form of a target: RFC 3986 6.2.2. */
function normalForm(target: string): string {
  const [path = "", ...query] = target.split(/(\?.*)/s);
  const normal = path.replace(/%[0-9A-Fa-f]{2}/g, (one) => {
    const text = decodeURIComponent(Number.parseInt(one.slice(1), 16) < 0x80 ? one : "%00");
    return /[A-Za-z0-9_~-]/.test(text) ? text : one.toUpperCase();
  });
  return normal + query.join("");
}

for (const path of PLAIN) {
  test(`${path}: forwarded in its normal form, else byte for byte`, async () => {
    await using client = await openClient(house.port);
    assert.equal((await client.ask({ key: KEY, path })).status, 200);
    assert.equal(lastSeen(house).target, normalForm(path));
  });
}

test("any path that is admitted is at the backend in its normal form, else byte for byte", async (t) => {
  const client = { now: await openClient(house.port) };
  const piece = fc.oneof(
    fc.constantFrom(
      ..."/ . .. %2e %2f %5c %25 %00 %c3%a9 %C3 ; ? = \\ // : @ * pets v1 ~ %".split(" "),
    ),
    fc.string({
      minLength: 1,
      maxLength: 3,
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
    }),
  );
  const path = fc.array(piece, { maxLength: 8 }).map((pieces) => `/v1/${pieces.join("")}`);
  let admitted = 0;
  await fc.assert(
    fc.asyncProperty(path, async (asked) => {
      if (!client.now.open()) client.now = await openClient(house.port);
      const before = house.backend.seen.length;
      const answer = await client.now.ask({ key: KEY, path: asked });
      if (answer.status === 400) {
        await client.now.ended;
        assert.equal(house.backend.seen.length, before);
      } else {
        assert.equal(answer.status, 200);
        assert.equal(house.backend.seen.length, before + 1);
        assert.equal(lastSeen(house).target, normalForm(asked));
        admitted += 1;
      }
    }),
    { numRuns: 1_000 },
  );
  client.now.socket.destroy();
  t.annotate(`${admitted} of 1,000 admitted`);
  assert.ok(admitted > 50);
});

test("the law holds after all of it", () => lawHolds(house));
