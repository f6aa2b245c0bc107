import assert from "node:assert/strict";
import { afterAll, describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue, valuesOf } from "../../support/wire/response.ts";

const TRUSTED = { config: { trustedProxies: ["127.0.0.1"] } };
const from = (client: string) => [["X-Forwarded-For", client]] as const;

describe("allow and deny", async () => {
  const house = await startTestGateway({
    ...TRUSTED,
    environment: {
      allow: ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7"],
      deny: ["192.0.2.128/25"],
      cors: { origins: ["*"] },
    },
  });
  afterAll(() => house[Symbol.asyncDispose]());
  const { key } = await house.issue();

  it("let in what is allowed and not denied, by the client's address behind trusted proxies", async () => {
    const cases = [
      ["192.0.2.1", 200],
      ["192.0.2.127", 200],
      ["192.0.2.128", 403],
      ["::ffff:192.0.2.1", 200],
      ["::ffff:c000:280", 403],
      ["2001:db8::1", 200],
      ["2001:db9::1", 403],
      ["198.51.100.7", 200],
      ["198.51.100.8", 403],
      ["192.0.2.1, 203.0.113.9", 403],
    ] as const;
    for (const [client, status] of cases) {
      const answer = await sendRequest(house.port, { key, fields: from(client) });
      assert.equal(answer.status, status, client);
      if (status === 403) assert.equal(errorOf(answer).code, "address_refused");
    }
    await house.law();
  });

  it("are judged ahead of the key, preflights and OPTIONS *, and cost nothing", async () => {
    const fields = [
      ...from("203.0.113.9"),
      ["Origin", "https://app.test"],
      ["Access-Control-Request-Method", "GET"],
    ] as const;
    for (const wanted of [
      { fields },
      { key: "pets_live_x", fields },
      { method: "OPTIONS", path: "/v1/pets", fields },
      { method: "OPTIONS", path: "*", fields },
    ]) {
      const answer = await sendRequest(house.port, wanted);
      assert.deepEqual([answer.status, errorOf(answer).code], [403, "address_refused"]);
      rateLimitFieldsOf(answer);
      assert.deepEqual(valuesOf(answer, "WWW-Authenticate"), []);
    }
    for (const entry of each(house.lines.filter(({ code }) => code === "address_refused"))) {
      assert.deepEqual([entry.charged, entry.decision, entry.forwards], [0, "none", 0]);
    }
  });

  it("deny alone lets all others in", async () => {
    await using other = await startTestGateway({
      ...TRUSTED,
      environment: { deny: ["192.0.2.0/24"] },
    });
    const theirs = await other.issue();
    const status = async (client: string) =>
      (await sendRequest(other.port, { key: theirs.key, fields: from(client) })).status;
    assert.deepEqual([await status("192.0.2.1"), await status("192.0.3.1")], [403, 200]);
  });
});

describe("maintenance", () => {
  it("answers 503 with its Retry-After ahead of the key, but for preflights and OPTIONS *", async () => {
    await using house = await startTestGateway({
      environment: { maintenance: { retryAfter: "30m" }, cors: { origins: ["*"] } },
    });
    const { key } = await house.issue();
    for (const wanted of [{ key }, {}, { key: "nonsense" }, { key, path: "/v1/none" }]) {
      const answer = await sendRequest(house.port, wanted);
      assert.deepEqual([answer.status, errorOf(answer).code], [503, "maintenance"]);
      assert.equal(onlyValue(answer, "Retry-After"), "1800");
      rateLimitFieldsOf(answer);
    }
    const fields = [
      ["Origin", "https://app.test"],
      ["Access-Control-Request-Method", "GET"],
    ] as const;
    assert.equal((await sendRequest(house.port, { method: "OPTIONS", fields })).status, 204);
    assert.equal((await sendRequest(house.port, { method: "OPTIONS", path: "*" })).status, 204);
    for (const entry of each(house.lines))
      assert.deepEqual([entry.charged, entry.forwards], [0, 0]);
    await house.law();
  });

  it("of an environment without an end to it ends by a reload", async () => {
    await using house = await startTestGateway({
      environment: { maintenance: { retryAfter: "1500ms" } },
    });
    const { key } = await house.issue();
    const closed = await sendRequest(house.port, { key });
    assert.equal(onlyValue(closed, "Retry-After"), "2");
  });
});
