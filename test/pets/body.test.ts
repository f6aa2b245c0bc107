import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import { test } from "vitest";
import { assertError, openApi } from "./api.ts";

const JSON_TYPE = { "content-type": "application/json" };

test("a body of 64 KiB passes, one byte more is 413, and so is one of megabytes", async (t) => {
  const api = await openApi(t);
  const sized = (bytes: number) => '{"name":"a","categoryId":1}'.padEnd(bytes, " ");
  assert.equal((await api.post(sized(65_536))).status, 201);
  for (const bytes of [65_537, 4_000_000]) {
    assertError(await api.post(sized(bytes)), 413, "body_too_large");
  }
  assert.equal(((await api.get("/v1/pets")).json as unknown[]).length, 1);
});

test("without Content-Length the same limit holds", async (t) => {
  const api = await openApi(t);
  const chunked = (bytes: number) => {
    const body = new Blob(['{"name":"a","categoryId":1}'.padEnd(bytes, " ")]).stream();
    const init = { headers: JSON_TYPE, body, duplex: "half" } as RequestInit;
    return api.call("POST", "/v1/pets", init);
  };
  assert.equal((await chunked(65_536)).status, 201);
  assertError(await chunked(65_537), 413, "body_too_large");
});

test("a body without end is cut off", async (t) => {
  const api = await openApi(t);
  let sentBytes = 0;
  // The event loop turns between two pieces. Otherwise a client whose connection has ended pulls for
  // ever, as it never hears of that end.
  const body = new ReadableStream({
    async pull(controller) {
      await nextTurn();
      controller.enqueue(new Uint8Array(65_536).fill(0x20));
      sentBytes += 65_536;
    },
  });
  const init = { headers: JSON_TYPE, body, duplex: "half" } as RequestInit;
  const ended = await api.call("POST", "/v1/pets", init).catch(() => undefined);
  assert.ok(ended === undefined || ended.status === 413);
  assert.ok(sentBytes > 16_000_000 && sentBytes < 64_000_000, `${sentBytes} bytes`);
  assert.equal((await api.get("/v1/pets")).status, 200);
});

test("only application/json in UTF-8 without coding is read; the rest is 415", async (t) => {
  const api = await openApi(t);
  const body = '{"name":"a","categoryId":1}';
  const right = [
    "application/json",
    "Application/JSON; charset=UTF-8",
    'application/json;charset="utf-8"',
  ];
  for (const type of [...right, "application/json; profile=x"]) {
    assert.equal((await api.post(body, { "content-type": type })).status, 201, type);
  }
  const wrong = ["text/plain", "application/x-www-form-urlencoded", "application/problem+json"];
  const odd = ["application/jsonp", "json", "application/json; charset=latin1", "*/*"];
  for (const type of [...wrong, ...odd]) {
    assertError(await api.post(body, { "content-type": type }), 415, "unsupported_media_type");
  }
  assertError(await api.post(Buffer.from(body), {}), 415, "unsupported_media_type");
  for (const coding of ["gzip", "br", "gzip, identity", ""]) {
    const headers = { ...JSON_TYPE, "content-encoding": coding };
    assertError(await api.post(body, headers), 415, "unsupported_media_type");
  }
  assert.equal(
    (await api.post(body, { ...JSON_TYPE, "content-encoding": "Identity" })).status,
    201,
  );
});

test("no body at all is an empty body: 400", async (t) => {
  const api = await openApi(t);
  assertError(await api.call("POST", "/v1/pets"), 400, "invalid_body");
  assertError(await api.call("POST", "/v1/pets", { headers: JSON_TYPE }), 400, "invalid_body");
});
