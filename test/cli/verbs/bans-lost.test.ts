import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { openAudited } from "../audit-kit.ts";
import { jsonOf, runVerb } from "../kit.ts";

describe("a ban that the store has lost and a gateway knows", () => {
  let redis: TestRedis;
  let house: TestGateway;
  let account: string;
  let statusOf: () => Promise<number>;
  beforeAll(async () => {
    redis = await startRedis();
    house = await openAudited({ config: { store: redis.url } });
    const { key, account: issued } = await house.issue();
    account = issued;
    statusOf = async () => (await house.ask(key)).status;
  });
  afterAll(async () => {
    await house[Symbol.asyncDispose]();
    await redis.close();
  });
  const verb = (...args: string[]) => runVerb([...args, "--config", house.file]);
  const loseBan = async () => {
    const { until } = jsonOf<{ until: number }>(
      await verb("bans", "add", account, "--for", "1h", "--json"),
    );
    await eventually(async () => assert.equal(await statusOf(), 429));
    await (await redis.client()).flushall();
    assert.equal(await statusOf(), 429);
    return until;
  };

  it("is told by bans why and bans list, and ended by bans lift with 0", async () => {
    const until = await loseBan();
    const { ban, lost } = jsonOf<{ ban: unknown; lost: unknown }>(
      await verb("bans", "why", account, "--json"),
    );
    assert.deepEqual([ban, lost], [null, { until, offences: 0 }]);
    const { out } = await verb("bans", "why", account);
    assert.match(out, /: banned until .* by what a gateway knows: the store has lost the ban/);
    const list = jsonOf(await verb("bans", "list", "--json"));
    const ended = await verb("bans", "lift", account);
    const said = `The ban of ${account} in production is lifted\n`;
    assert.deepEqual([ended.status, ended.out, ended.err], [0, said, ""]);
    assert.deepEqual(list, [{ account, environment: "production", until, offences: 0 }]);
    await eventually(async () => assert.equal(await statusOf(), 200));
    assert.match((await verb("bans", "why", account)).out, /: not banned, running strikes: 0\n/);
    assert.equal((await verb("bans", "lift", account)).status, 1, "nothing is left of it");
  });

  it("is ended by the admin API, which then knows none", async () => {
    const until = await loseBan();
    const path = `/api/bans/${account}`;
    const why = async () => (await (await house.admin(path)).json()) as { lost: unknown };
    assert.deepEqual((await why()).lost, { until, offences: 0 });
    const lifting = () => house.admin(path, { method: "DELETE" });
    const lifted = await lifting();
    assert.deepEqual(await lifted.json(), { account, environment: "production", lifted: true });
    assert.equal(await statusOf(), 200);
    assert.deepEqual([(await why()).lost, (await lifting()).status], [null, 404]);
    assert.deepEqual(await (await house.admin("/api/bans")).json(), []);
  });
});
