import assert from "node:assert/strict";
import { connect } from "node:http2";
import { afterAll, test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { sendRaw } from "../support/wire/raw.ts";
import { parseResponses } from "../support/wire/response.ts";
import { lastSeen, lawHolds, namesOf, openAttacked } from "./attacked.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

test("the preface of HTTP/2 is refused in HTTP/1.1 and closed: no rapid reset, no CONTINUATION", async () => {
  const frames = Buffer.from("000000040000000000", "hex");
  const { bytes, ended } = await sendRaw(house.port, ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frames]);
  const { responses, problem } = parseResponses(bytes, { closed: true });
  assert.equal(problem, undefined);
  assert.ok([400, 501, 505].includes(responses[0]?.status ?? 0), `${responses[0]?.status}`);
  assert.equal(responses.length, 1);
  assert.equal(ended, "closed");
});

test("a client of HTTP/2 gets no session", async () => {
  const session = connect(house.url);
  const outcome = await new Promise((resolve) => {
    session
      .once("error", () => resolve("refused"))
      .once("remoteSettings", () => resolve("settings"));
  });
  session.destroy();
  assert.equal(outcome, "refused");
});

test("an upgrade to h2c is a plain request, and nothing of it goes on", async () => {
  const fields = [
    ["Connection", "Upgrade, HTTP2-Settings"],
    ["Upgrade", "h2c"],
    ["HTTP2-Settings", "AAMAAABkAAQAAP__"],
  ] as const;
  assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 200);
  const names = namesOf(lastSeen(house));
  assert.ok(!names.includes("upgrade") && !names.includes("http2-settings"));
});

test("other versions are 505, spelled as they may be", async () => {
  for (const version of ["2.0", "0.9", "1.2", "9.9", "3.0"]) {
    assert.equal((await sendRequest(house.port, { key: KEY, version })).status, 505, version);
  }
});

test("the law holds after all of it", () => lawHolds(house));
