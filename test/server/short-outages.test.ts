import assert from "node:assert/strict";
import { createServer } from "node:http";
import { it } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";

it("each outage of a backend is told with its instants, however short it was", async (t) => {
  let isBroken = false;
  const port = await freePort();
  const backend = createServer((request, response) => {
    if (isBroken) request.socket.destroy();
    else response.end("[]");
  });
  await new Promise<void>((resolve) => backend.listen(port, "127.0.0.1", resolve));
  t.onTestFinished(() => void backend.close());
  const upstreams = [`http://127.0.0.1:${port}`];
  const production = { listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live", upstreams };
  await using house = await startTestGateway({
    keys: { [KEY]: {} },
    config: { environments: { production } },
  });
  const told = (of: string) => house.said.filter(({ kind }) => kind === of);
  const outages: (readonly [fromMs: number, toMs: number])[] = [];
  for (let i = 0; i < 3; i++) {
    const fromMs = Date.now();
    isBroken = true;
    for (let n = 0; n < 5; n++) assert.equal((await house.ask(KEY)).status, 502);
    isBroken = false;
    assert.equal((await house.ask(KEY)).status, 200);
    outages.push([fromMs, Date.now()]);
  }
  // How many are told together depends on when the gateway looks.
  await eventually(() => {
    const counts = [
      ...told("upstream_down").map(({ outages: times = 1 }) => Number(times)),
      ...told("upstream_up").map(({ outages: times = 0 }) => Number(times)),
    ];
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      outages.length,
    );
    assert.equal(told("upstream_up").length, told("upstream_down").length);
  });
  for (const { kind, time } of [...told("upstream_down"), ...told("upstream_up")]) {
    const isOfOne = outages.some(
      ([fromMs, toMs]) => fromMs <= Number(time) && Number(time) <= toMs,
    );
    assert.ok(isOfOne, `${kind} at ${time}, not in ${JSON.stringify(outages)}`);
  }
});
