import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { loadFiles } from "./folder.ts";

async function warned(environment: string, lines = ""): Promise<string[]> {
  const text = `environments:
  production: { listen: 127.0.0.1:0, keyTag: live, upstreams: [http://127.0.0.1:9], ${environment} }
plans: { free: { minute: 60 } }
${lines}
`;
  const loaded = await loadFiles({ "tollgate.yaml": text });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  return loaded.warnings.map(({ line, column, message }) => `${line}:${column}: ${message}`);
}

const whole = (network: string, all = 32) =>
  `${network} is the whole network in which the address lies: write the first address of the network, or /${all} for this address alone`;

describe("check warns of a list", () => {
  it("with a network whose address is not its first one, which counts as a whole", async () => {
    const told = await warned(
      'allow: [10.0.0.1/8, 192.168.1.128/25, 172.16.0.1], deny: ["2001:db8:1::/40", "2001:db8:100::/40", "::/1", "::1"]',
      "trustedProxies: [10.1.2.129/25, 10.0.0.0/8]",
    );
    assert.deepEqual(
      told.map((text) => text.replace(/^\d+:\d+: /, "")),
      [whole("10.0.0.1/8"), whole("2001:db8:1::/40", 128), whole("10.1.2.129/25")],
    );
  });

  it("with an entry twice, at the second one", async () => {
    const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
    const told = await warned(
      'allow: [10.0.0.0/8, 10.0.0.0/8], deny: ["::1", "::1"], cors: { origins: ["https://a.b", "https://a.b"] }',
      `log: { meta: [tier, tenant, tier] }
events: { url: "https://a.b/c", secret: ${secret}, kinds: [ban, ban], quota: [day, day] }
trustedProxies: [127.0.0.1, 127.0.0.1]`,
    );
    assert.match(told[3] ?? "", /^4:29: /);
    assert.deepEqual(
      told.map((text) => text.replace(/:\d+: /, ": ")),
      [
        "2: 10.0.0.0/8 is twice in allow; remove one",
        "2: ::1/128 is twice in deny; remove one",
        "2: https://a.b is twice in origins; remove one",
        "4: tier is twice in meta; remove one",
        "5: ban is twice in kinds; remove one",
        "5: day is twice in quota; remove one",
        "6: 127.0.0.1/32 is twice in trustedProxies; remove one",
      ],
    );
  });

  it("with a network twice in two spellings, and a host of the admin listener", async () => {
    const told = await warned(
      'allow: ["::ffff:10.0.0.1", 10.0.0.1, "::ffff:a00:1", 10.0.0.2]',
      `trustedProxies: ["2001:db8::/32", "2001:DB8:0::/32", "2001:db8::/33", "::ffff:0:0/95", "::fffe:0:0/95"]
admin: { hosts: [a.test, b.test, a.test] }`,
    );
    assert.deepEqual(
      told.map((text) => text.replace(/^(\d+):\d+: /, "$1: ")).filter((text) => /twice/.test(text)),
      [
        "2: 10.0.0.1/32 is twice in allow; remove one",
        "2: ::ffff:a00:1/128 is twice in allow; remove one",
        "4: 2001:DB8:0::/32 is twice in trustedProxies; remove one",
        "4: ::fffe:0:0/95 is twice in trustedProxies; remove one",
        "5: a.test is twice in hosts; remove one",
      ],
    );
  });

  it("allow whose mapped network lies in trustedProxies, as in the spelling of IPv4", async () => {
    const told = await warned('allow: ["::ffff:10.0.0.0/104"]', "trustedProxies: [10.0.0.0/8]");
    const plain = await warned("allow: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]");
    assert.equal(plain.length, 1);
    assert.equal(told.length, 1);
  });
});
