import assert from "node:assert/strict";
import { deflateSync, gzipSync } from "node:zlib";
import { afterAll, test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { valuesOf } from "../support/wire/response.ts";
import { fieldOf, lastSeen, lawHolds, openAttacked } from "./attacked.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

/** 64 MiB of nothing, in 64 KiB: decoded once, it would show. */
const BOMB = gzipSync(Buffer.alloc(64 * 1024 ** 2));

test("a coded body of a request goes on as it is, byte for byte, with its coding", async () => {
  const bodies = {
    gzip: BOMB,
    "gzip, gzip": gzipSync(BOMB),
    deflate: deflateSync("a"),
    br: Buffer.from("junk"),
    "x-none": Buffer.from("y"),
  };
  const before = process.memoryUsage().rss;
  for (const [coding, body] of Object.entries(bodies)) {
    const fields = [["Content-Encoding", coding]] as const;
    assert.equal(
      (await sendRequest(house.port, { key: KEY, method: "POST", body, fields })).status,
      200,
    );
    assert.deepEqual(fieldOf(lastSeen(house), "content-encoding"), [coding]);
    assert.ok(lastSeen(house).body.equals(body));
  }
  assert.ok(process.memoryUsage().rss - before < 48 * 1024 ** 2);
});

test("a coded body of a response too: neither its bytes nor its fields change", async () => {
  for (const [coding, body] of [
    ["gzip", BOMB],
    ["gzip", Buffer.from("not gzip")],
    ["br", Buffer.from("junk")],
  ] as const) {
    house.backend.answer((_seen, response) => {
      response
        .writeHead(200, { "Content-Encoding": coding, "Content-Length": body.length })
        .end(body);
    });
    const answer = await sendRequest(house.port, {
      key: KEY,
      fields: [["Accept-Encoding", "gzip"]],
    });
    assert.deepEqual(valuesOf(answer, "Content-Encoding"), [coding]);
    assert.ok(answer.body.equals(body));
    assert.deepEqual(fieldOf(lastSeen(house), "accept-encoding"), ["gzip"]);
  }
});

test("without Accept-Encoding of the client, none is asked for", async () => {
  await sendRequest(house.port, { key: KEY });
  assert.deepEqual(fieldOf(lastSeen(house), "accept-encoding"), []);
});

test("the law holds after all of it", () => lawHolds(house));
