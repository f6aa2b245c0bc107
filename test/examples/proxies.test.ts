import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import { parse } from "yaml";
import { each } from "../support/each.ts";
import { startTestUpstream, type TestUpstream } from "../support/gateway/backend.ts";
import { type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { needing } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";
import {
  ask,
  CLIENT,
  openProxy,
  PROXIES,
  type ProxyExample,
  type RunningProxy,
} from "./behind-proxy.ts";
import { readExample } from "./example-file.ts";

/** The fields of proxies that no example sets (docs/reference/edge.md#request-fields). */
const CLAIMS = [
  ...["forwarded", "x-real-ip", "x-original-forwarded-for", "x-client-ip", "true-client-ip"],
  ...[
    "cf-connecting-ip",
    "client-ip",
    "x-cluster-client-ip",
    "fastly-client-ip",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-forwarded-ssl",
  ],
  ...["x-forwarded-scheme", "x-forwarded-protocol", "x-forwarded-by", "x-forwarded-path"],
  ...["x-forwarded-uri", "x-forwarded-method", "x-forwarded-user", "x-forwarded-email"],
  ...["x-forwarded-groups", "x-forwarded-prefix", "x-forwarded-client-cert"],
  ...["x-forwarded-access-token", "x-forwarded-preferred-username", "x-forwarded-role"],
  ...["x-forwarded-tls-client-cert", "x-forwarded-tls-client-cert-info"],
];

type House = RunningProxy & {
  readonly backend: TestUpstream;
  readonly served: SpawnedGateway;
};

/** The proxy with the first gateway alone: the second one does not run. */
async function open(proxy: ProxyExample): Promise<House> {
  const backend = await startTestUpstream();
  const { trustedProxies } = parse(readExample(`${proxy.name}/tollgate.yaml`));
  const served = await spawnGateway({ upstreams: [backend.origin], config: { trustedProxies } });
  const none = await freePort();
  const running = await openProxy(proxy, {
    gateways: [served.port, none],
    admins: [Number(new URL(served.adminUrl).port), none],
  });
  const close = async () => {
    await running.close();
    await served[Symbol.asyncDispose]();
    await backend[Symbol.asyncDispose]();
  };
  const house = { ...running, backend, served, close };
  // HAProxy sends nothing before its first check has passed.
  await eventually(async () => assert.equal((await ask(house)).status, 200), { withinMs: 60_000 });
  return house;
}

function lastField({ backend }: House, name: string): string | undefined {
  const { rawHeaders = [] } = backend.seen.at(-1) ?? {};
  const at = rawHeaders.findIndex((each, i) => i % 2 === 0 && each.toLowerCase() === name);
  return at === -1 ? undefined : rawHeaders[at + 1];
}

for (const proxy of PROXIES) {
  describe(`behind ${proxy.name}`, needing(proxy.name), () => {
    let house: House;
    beforeAll(async () => {
      house = await open(proxy);
    });
    afterAll(() => house?.close());

    it("the backend learns the client's address, scheme and host, whatever the client claims", async () => {
      const { status } = await ask(house, {
        "x-forwarded-for": "203.0.113.9",
        "x-forwarded-proto": "http",
        "x-forwarded-host": "evil.example",
      });
      assert.equal(status, 200);
      assert.equal(lastField(house, "x-forwarded-for")?.split(", ")[0], CLIENT);
      assert.equal(lastField(house, "x-forwarded-proto"), "https");
      assert.equal(lastField(house, "x-forwarded-host"), "api.example.com");
    });

    // The gateway believes a trusted proxy: such fields reach the backend unless the proxy deletes them.
    it("the backend gets none of the other fields in which a client claims to be someone else", async () => {
      const { status } = await ask(
        house,
        Object.fromEntries(CLAIMS.map((name) => [name, "6.6.6.6"])),
      );
      assert.equal(status, 200);
      const passed = each(CLAIMS).filter((name) => lastField(house, name) !== undefined);
      assert.deepEqual(passed, []);
    });

    it("the client sees the fields of the gateway as they are", async () => {
      const { headers } = await ask(house);
      const names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
      for (const name of names) assert.match(String(headers[name]), /^\d+$/, name);
    });

    it("each request is forwarded and charged once", async () => {
      const { backend, served } = house;
      const before = backend.seen.length;
      const counted = await served.counted();
      for (let i = 0; i < 10; i++) assert.equal((await ask(house)).status, 200);
      assert.equal(backend.seen.length - before, 10);
      assert.equal((await served.counted()) - counted, 10);
    });
  });
}
