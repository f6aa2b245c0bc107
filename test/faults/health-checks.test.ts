import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { sendRequest } from "../support/wire/client.ts";

type Fields = { readonly rawHeaders: readonly string[] };
const isProbe = ({ rawHeaders }: Fields) => rawHeaders.includes("tollgate-health");

describe("a health check through a whole gateway", () => {
  it("sends no request to an ill backend, brings it back, and is no request of a client", async () => {
    let ill = true;
    const sick = await startTestUpstream((seen, response) => {
      const status = ill && isProbe(seen) ? 503 : 200;
      response.writeHead(status, { "Content-Type": "application/json" }).end("[]");
    });
    await using well = await startTestUpstream();
    await using house = await startTestGateway({
      backend: sick,
      environment: {
        upstreams: [sick.origin, well.origin],
        healthCheck: { path: "/up", every: "100ms" },
      },
      keys: { [KEY]: {} },
    });
    const asked = () => sick.seen.filter((one) => !isProbe(one)).length;
    const areUp = async () => !(await (await house.admin("/readyz")).text()).includes("down: ");

    await eventually(async () => assert.equal(await areUp(), false));
    const before = asked();
    for (let i = 0; i < 6; i++)
      assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    assert.equal(asked(), before);

    ill = false;
    await eventually(async () => assert.equal(await areUp(), true));
    for (let i = 0; i < 6; i++)
      assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    await eventually(() => assert.equal(house.lines.length, 12));
    const forwards = house.lines.reduce((sum, entry) => sum + entry.forwards, 0);
    const served = asked() + well.seen.filter((one) => !isProbe(one)).length;
    assert.equal(served, forwards, "the law, without probes");
    assert.equal(sick.seen.find(isProbe)?.target, "/up");
  });

  it("is not sent where none is configured", async () => {
    await using house = await startTestGateway({ keys: { [KEY]: {} } });
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    await house.law();
    assert.equal(house.backend.seen.length, 1);
    assert.equal(house.backend.connections(), 1);
  });

  it("goes on after a reload that changes it, and stops after one that takes it away", async () => {
    await using backend = await startTestUpstream();
    await using house = await startTestGateway({
      backend,
      environment: { healthCheck: { path: "/one", every: "100ms" } },
    });
    const probes = (target: string) => backend.seen.filter((one) => one.target === target).length;
    const environment = (more: object) => ({
      production: { listen: "127.0.0.1:0", keyTag: "live", upstreams: [backend.origin], ...more },
    });
    await eventually(() => probes("/one") > 1);
    const healthCheck = { path: "/two", every: "100ms" };
    await house.rewrite({ environments: environment({ healthCheck }) });
    assert.equal((await house.gateway.reload()).ok, true);
    const ones = probes("/one");
    await eventually(() => probes("/two") > 3);
    assert.ok(probes("/one") <= ones + 1, "one may have been on its way");
    await house.rewrite({ environments: environment({}) });
    assert.equal((await house.gateway.reload()).ok, true);
    const twos = probes("/two");
    // Four periods in which a probe would have come.
    await sleep(400);
    assert.ok(probes("/two") <= twos + 1);
  });
});
