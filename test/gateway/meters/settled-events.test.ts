import assert from "node:assert/strict";
import { it, onTestFinished } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { sendRequest } from "../../support/wire/client.ts";

const METERS = { tokens: { hold: 40, max: 100, used: ["header x-used"] } };

/** By the use of each request: the percentages of 100 units that are told, with the count. */
const CROSSED = [
  ["neither crosses", [79], []],
  ["a settlement crosses 80 %", [95], [[80, 95]]],
  ["a settlement crosses both", [100], [[100, 100]]],
  ["a hold crosses 80 %", [50, 40], [[80, 90]]],
  ["a hold crosses 80 %, and its settlement does not again", [50, 35], [[80, 90]]],
  [
    "a hold crosses 80 %, its settlement 100 %",
    [50, 60],
    [
      [80, 90],
      [100, 110],
    ],
  ],
] as const;

for (const kind of ["memory", "redis"] as const) {
  it(`80 and 100 % of a meter are told once each where a hold or its settlement crosses them, with ${kind}`, async () => {
    const redis = kind === "redis" ? await startRedis() : undefined;
    onTestFinished(() => redis?.close());
    await using house = await startTestGateway({
      environment: { api: null, costs: [{ match: "POST /v1/chat", meters: METERS }] },
      config: {
        ...(redis === undefined ? {} : { store: redis.url }),
        plans: { free: { minute: 100, meters: { tokens: { year: 100 } } } },
      },
    });
    const settled = (account: string) => {
      return house.lines.filter((line) => line.account === account).length;
    };
    for (const [what, uses, told] of CROSSED) {
      const { key, account } = await house.issue();
      const events = () => house.said.filter((line) => line.kind === "quota");
      const toldBefore = events().length;
      for (const [i, units] of uses.entries()) {
        house.backend.answer((_seen, response) => {
          response.writeHead(200, { "X-Used": units }).end("{}");
        });
        await sendRequest(house.port, { key, method: "POST", path: "/v1/chat", body: "{}" });
        await eventually(() => assert.equal(settled(account), i + 1));
      }
      await eventually(() => {
        assert.deepEqual(
          events()
            .slice(toldBefore)
            .map((event) => [event.account, event.window, event.percent, event.used]),
          told.map((each) => [account, "tokens.year", ...each]),
          what,
        );
      });
    }
  });
}
