import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { AnonymousClients } from "../../../src/gateway/client/anonymous-clients.ts";

const TERMS = { environment: "production", plan: "open", limits: [] };

/** A different IPv4 address for each number. */
function address(i: number): string {
  return `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`;
}

describe("visitors", () => {
  it("are counted by address, of IPv6 by the /64", () => {
    const anonymousClients = new AnonymousClients();
    const accountAt = (client: string) => anonymousClients.get(TERMS, client, 0).account;
    assert.equal(accountAt("192.0.2.1"), "addr:192.0.2.1");
    assert.equal(accountAt("2001:db8::1"), accountAt("2001:db8::ffff"));
    assert.notEqual(accountAt("2001:db8::1"), accountAt("2001:db8:0:1::1"));
    assert.equal(anonymousClients.get(TERMS, "192.0.2.1", 0).id, "production:addr:192.0.2.1");
  });

  it("come 500 a second and no faster: further ones are one, and known ones stay themselves", () => {
    const anonymousClients = new AnonymousClients();
    for (let i = 0; i < 500; i++) {
      assert.equal(anonymousClients.get(TERMS, address(i), 999).account, `addr:${address(i)}`);
    }
    assert.equal(anonymousClients.get(TERMS, address(500), 999).account, "addr:other");
    assert.equal(anonymousClients.get(TERMS, address(0), 999).account, `addr:${address(0)}`);
    assert.equal(anonymousClients.get(TERMS, address(500), 1_998.9).account, "addr:other");
    assert.equal(anonymousClients.get(TERMS, address(500), 1_999).account, `addr:${address(500)}`);
  });

  it("come no faster in any second, wherever it begins", () => {
    const anonymousClients = new AnonymousClients();
    const cameMs: number[] = [];
    for (let i = 0; i < 12_000; i++) {
      // Four bursts, each with its middle at the beginning of a second.
      const nowMs = 2_000 * Math.floor(i / 3_000) + 900 + (i % 3_000) / 15;
      if (anonymousClients.get(TERMS, address(i), nowMs).account !== "addr:other")
        cameMs.push(nowMs);
    }
    assert.equal(cameMs.length, 2_000);
    for (const [i, ms] of cameMs.slice(500).entries()) {
      assert.ok(ms - (cameMs[i] as number) >= 1_000, `501 addresses before ${ms} ms`);
    }
  });

  it("take new terms at a reload without coming anew", () => {
    const anonymousClients = new AnonymousClients();
    for (let i = 0; i < 500; i++) anonymousClients.get(TERMS, address(i), 0);
    const limits = [{ window: "minute", limit: 1 }] as const;
    const next = anonymousClients.get({ ...TERMS, limits }, address(0), 0);
    assert.deepEqual([next.account, next.limits], [`addr:${address(0)}`, limits]);
  });

  it("are remembered to a bound: the least recent are forgotten, the others are not new", () => {
    const anonymousClients = new AnonymousClients();
    for (let i = 0; i < 150_000; i++) anonymousClients.get(TERMS, address(i), i * 2);
    for (let i = 0; i < 500; i++) anonymousClients.get(TERMS, address(200_000 + i), 301_000);
    assert.equal(anonymousClients.get(TERMS, address(0), 301_000).account, "addr:other");
    const last = address(149_999);
    assert.equal(anonymousClients.get(TERMS, last, 301_000).account, `addr:${last}`);
  });
});
