import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { openStrictBackend } from "../fuzz/strict-backend.ts";
import { ACCOUNT, KEY, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { openClient } from "../support/wire/client.ts";

const backend = await openStrictBackend();
const served = await spawnGateway({ upstreams: [backend.origin], api: null });
afterAll(async () => {
  await served[Symbol.asyncDispose]();
  await backend[Symbol.asyncDispose]();
});

const HEAD = `Host: gw.test\r\nAuthorization: Bearer ${KEY}\r\n`;
const LENGTH_OF_9 = "Content-Length: 9\r\n\r\nGET / a b";
const CHUNKS =
  "Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nGET \r\n05\r\n/ a b\r\n0\r\nX-T: 1\r\n\r\n";

/** The backend here reads to the letter: a byte too many would be a request of its own, or an error. */
for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
  for (const [name, framed] of Object.entries({ "a length": LENGTH_OF_9, chunks: CHUNKS })) {
    test(`a ${method} with ${name} is framed anew, from the bytes of its body`, async () => {
      const from = backend.seen.length;
      await using client = await openClient(served.port);
      for (let i = 0; i < 3; i++) client.write(`${method} /v1/a HTTP/1.1\r\n${HEAD}${framed}`);
      const answers = await client.responses([method, method, method]);
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200, 200],
      );
      const seen = backend.seen.slice(from);
      assert.deepEqual(
        seen.map(({ body }) => body.toString()),
        Array(3).fill("GET / a b"),
      );
      const extra = seen.flatMap(({ fields }) =>
        fields.filter(([is]) => /^(x-t|trailer)$/i.test(is)),
      );
      assert.deepEqual(extra, [], "trailers and extensions stay here");
    });
  }
}

for (const method of ["GET", "HEAD", "OPTIONS"]) {
  test(`a ${method} with a body, of no bytes too where it is chunked, is 400`, async () => {
    const from = backend.seen.length;
    for (const framed of [LENGTH_OF_9, CHUNKS, "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]) {
      await using client = await openClient(served.port);
      client.write(`${method} /v1/a HTTP/1.1\r\n${HEAD}${framed}`);
      const [answer] = await client.responses([method]);
      assert.equal(answer?.status, 400);
      await client.ended;
    }
    assert.equal(backend.seen.length, from);
  });
}

test("Content-Length: 0 is no body: a GET with it passes without", async () => {
  await using client = await openClient(served.port);
  client.write(`GET /v1/a HTTP/1.1\r\n${HEAD}Content-Length: 0\r\n\r\n`);
  assert.equal((await client.responses(["GET"]))[0]?.status, 200);
  const names = backend.seen.at(-1)?.fields.map(([name]) => name.toLowerCase());
  assert.ok(!names?.includes("content-length") && !names?.includes("transfer-encoding"));
});

test("the law holds after all of it, and the backend read every byte", async () => {
  const sum = (what: "forwards" | "charged") =>
    served.lines.reduce((all, entry) => all + entry[what], 0);
  await eventually(() => assert.equal(sum("forwards"), backend.seen.length));
  assert.equal(await served.counted(ACCOUNT), sum("charged"));
  assert.deepEqual(backend.problems, []);
});
