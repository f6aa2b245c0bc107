import assert from "node:assert/strict";
import { afterAll, describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { openClient, requestBytes, sendRequest } from "../../support/wire/client.ts";

const house = await startTestGateway();
afterAll(() => house[Symbol.asyncDispose]());

describe("HEAD that is refused before there is a request", () => {
  const long = "x".repeat(40_000);
  for (const [what, bytes, status] of [
    ["another version", "HEAD /v1/pets HTTP/1.2\r\nHost: a\r\n\r\n", 505],
    ["a field that is none", "HEAD /v1/pets HTTP/1.1\r\nHost a\r\n\r\n", 400],
    ["a line that is none", "HEAD /v1/pets\r\n\r\n", 400],
    ["too long a target", `HEAD /${long} HTTP/1.1\r\nHost: a\r\n\r\n`, 414],
    ["too long a head", `HEAD / HTTP/1.1\r\nHost: a\r\nA: ${long}\r\n\r\n`, 431],
  ] as const) {
    for (const cut of [bytes.length, 7]) {
      it(`has no body, in pieces of ${cut} bytes: ${what}`, async () => {
        await using client = await openClient(house.port);
        for (let at = 0; at < bytes.length; at += cut) client.write(bytes.slice(at, at + cut));
        const [answer] = await client.responses(["HEAD"]);
        assert.equal(answer?.status, status);
        await client.ended;
        assert.equal(client.waiting().length, 0);
      });
    }
  }
});

describe("a connection that begins with the PROXY protocol", () => {
  const bytes = `PROXY TCP4 192.0.2.1 192.0.2.2 5000 80\r\n${requestBytes({})}`;
  for (const cut of [bytes.length, 1]) {
    it(`is told what to send in its place, in pieces of ${cut} bytes`, async () => {
      await using client = await openClient(house.port);
      for (let at = 0; at < bytes.length; at += cut) client.write(bytes.slice(at, at + cut));
      const [answer] = await client.responses(["GET"]);
      assert.equal(answer?.status, 501);
      assert.match(String(answer.body), /PROXY protocol.*X-Forwarded-For/);
      await client.ended;
    });
  }

  it("and no other unknown method is", async () => {
    await using client = await openClient(house.port);
    client.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    const [answer] = await client.responses(["GET"]);
    assert.equal(answer?.status, 501);
    assert.doesNotMatch(String(answer.body), /PROXY/);
    await client.ended;
  });

  it("keeps the law", () => house.law());
});

describe("Transfer-Encoding with white space around its value", () => {
  for (const value of ["\tchunked", "chunked\t", " \t chunked \t "]) {
    it(`is chunked: ${JSON.stringify(value)}`, async () => {
      const { key } = await house.issue();
      await using client = await openClient(house.port);
      const head = requestBytes({ key, method: "POST" }).toString("latin1").slice(0, -2);
      const fields = `Content-Type: application/json\r\nTransfer-Encoding:${value}\r\n\r\n`;
      client.write(`${head}${fields}2\r\n{}\r\n0\r\n\r\n`);
      const [answer] = await client.responses(["POST"]);
      assert.equal(answer?.status, 200);
      assert.equal(house.backend.seen.at(-1)?.body.toString(), "{}");
    });
  }

  it("keeps the law", async () => {
    await sendRequest(house.port);
    await house.law();
  });
});
