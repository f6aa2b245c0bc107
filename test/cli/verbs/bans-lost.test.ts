import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { BanReport, UsageReport } from "../../../src/core/keys/usage-reports.ts";
import type { TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { openAdmin, send } from "../access/admin-server.ts";
import { openAudited } from "../audit-kit.ts";
import { configText, jsonOf, openFolder, runVerb } from "../kit.ts";

const STANDING = "/v1/_limits";

describe("a ban that a gateway knows and the store does not have", () => {
  let redis: TestRedis;
  let house: TestGateway;
  let account: string;
  let statusOf: () => Promise<number>;
  let standing: () => Promise<UsageReport>;
  beforeAll(async () => {
    redis = await startRedis();
    house = await openAudited({
      config: { store: redis.url },
      environment: { standing: STANDING },
    });
    const { key, account: issued } = await house.issue();
    account = issued;
    statusOf = async () => (await house.ask(key)).status;
    standing = async () => (await (await house.ask(key, STANDING)).json()) as UsageReport;
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
    assert.match(out, /: banned until .* by what a gateway knows: the store does not have the ban/);
    const list = jsonOf(await verb("bans", "list", "--json"));
    const words = (await verb("bans", "list")).out;
    const lifts = () => house.said.filter(({ kind }) => kind === "ban_lifted");
    const ended = await verb("bans", "lift", account);
    const said = `The ban of ${account} in production is lifted\n`;
    assert.deepEqual([ended.status, ended.out, ended.err], [0, said, ""]);
    assert.deepEqual(list, [
      { account, environment: "production", until, offences: 0, lost: true },
    ]);
    assert.match(words, / the store does not have it\n$/);
    await eventually(() =>
      assert.deepEqual(
        lifts().map((one) => one.account),
        [account],
      ),
    );
    await eventually(async () => assert.equal(await statusOf(), 200));
    assert.match((await verb("bans", "why", account)).out, /: not banned, running strikes: 0\n/);
    assert.equal((await verb("bans", "lift", account)).status, 1, "nothing is left of it");
  });

  it("is told by usage and by the standing of its account, until it is lifted", async () => {
    const lost = { until: await loseBan(), offences: 0, lost: true };
    const usage = async () => [
      jsonOf<UsageReport>(await verb("usage", account, "--json")),
      ...jsonOf<UsageReport[]>(await verb("usage", "--json")),
      (await (await house.admin(`/api/usage/${account}`)).json()) as UsageReport,
    ];
    const bans = async () => (await usage()).map(({ ban }) => ban);
    await eventually(async () => assert.deepEqual((await standing()).ban, lost));
    assert.deepEqual(await bans(), [lost, lost, lost]);
    for (const args of [[account], []]) {
      const { out } = await verb("usage", ...args);
      assert.match(out, /banned until .* by what a gateway knows: the store does not have the ban/);
    }
    assert.equal((await verb("bans", "lift", account)).status, 0);
    await eventually(async () => assert.equal((await standing()).ban, null));
    assert.deepEqual(await bans(), [null, null, null]);
  });

  it("is ended by the admin API, which then knows none", async () => {
    const until = await loseBan();
    const path = `/api/bans/${account}`;
    const why = async () => (await (await house.admin(path)).json()) as { lost: unknown };
    assert.deepEqual((await why()).lost, { until, offences: 0 });
    const other = (await house.issue()).account;
    await verb("bans", "add", other, "--for", "2h");
    const listed = async (query: string) => {
      const told = (await (await house.admin(`/api/bans${query}`)).json()) as BanReport[];
      return told.map((one) => one.account);
    };
    assert.deepEqual([await listed(""), await listed("?lost=true")], [[other, account], [account]]);
    const lifting = () => house.admin(path, { method: "DELETE" });
    const lifted = await lifting();
    assert.deepEqual(await lifted.json(), { account, environment: "production", lifted: true });
    assert.equal(await statusOf(), 200);
    assert.deepEqual([(await why()).lost, (await lifting()).status], [null, 404]);
    assert.deepEqual(await listed(""), [other]);
  });

  it("is asked for once by bans list, and not by bans lift of one that the store has", async () => {
    const lost = { until: 2_000_000_000, offences: 1 };
    let banned = "";
    await using folder = await openFolder();
    await using gateway = await openAdmin((response, { asked }) => {
      const named = ["other", banned].map((account) => ({
        ...lost,
        account,
        environment: "production",
      }));
      if (asked.startsWith("GET /api/bans?")) send(response, 200, named);
      else if (asked.startsWith("GET /api/bans/"))
        send(response, 200, { account: banned, bans: [], lost });
      else send(response, 404, { code: "not_found", message: "There is nothing here" });
    });
    const config = join(folder.path, "tollgate.yaml");
    await writeFile(
      config,
      configText({ admin: gateway.port, store: redis.url, more: "storePrefix: o\n" }),
    );
    const ask = (...args: string[]) => runVerb([...args, "--config", config]);
    const created = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
    banned = jsonOf<{ account: string }>(await ask(...created)).account;
    await ask("bans", "add", banned, "--for", "1h");
    const list = jsonOf<{ account: string }[]>(await ask("bans", "list", "--json"));
    assert.deepEqual(
      list.map((one) => one.account),
      ["other", banned],
    );
    const why = jsonOf<{ lost: unknown }>(await ask("bans", "why", banned, "--json"));
    assert.equal(why.lost, null, "the store has it, whatever the gateway knew");
    assert.equal((await ask("bans", "lift", banned)).status, 0);
    const asked = gateway.questions.filter((one) => one.asked.includes("/api/bans"));
    assert.deepEqual(
      asked.map((one) => one.asked),
      ["GET /api/bans?limit=10000&lost=true", `GET /api/bans/${banned}`],
    );
  });
});
