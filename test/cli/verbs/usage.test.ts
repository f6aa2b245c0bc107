import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { UsageReport } from "../../../src/core/keys/usage-reports.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { awayFromMinuteEdge } from "../../support/wire/client.ts";
import { openAudited } from "../audit-kit.ts";
import { freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

/** By account, the day's use: three accounts on two plans that have asked 9, 4 and 0 times. */
const ASKED = { often: ["free", 9], seldom: ["pro", 4], never: ["free", 0] } as const;

async function usedUp(store: string): Promise<void> {
  await using folder = await openFolder();
  await using backend = await startTestUpstream();
  const [admin = 0] = await freePorts(1);
  const file = await writeConfig(folder, {
    ...{ admin, store, free: "{ day: 10 }" },
    ...{ productionUpstream: backend.port, more: "bans: off\n" },
  });
  const named = (...args: string[]) => runVerb([...args, "--config", file]);
  const keys = new Map<string, string>();
  for (const [account, [plan]] of Object.entries(ASKED)) {
    const args = ["--env", "production", "--plan", plan, "--account", account, "--json"];
    keys.set(account, jsonOf<{ key: string }>(await named("keys", "create", ...args)).key);
  }
  await using gateway = startTollgate(["start", "--config", file]);
  const { urls } = await gateway.line(({ msg }) => msg === "serving");
  await awayFromMinuteEdge();
  for (const [account, [, times]] of Object.entries(ASKED)) {
    for (let i = 0; i < times; i++) {
      const headers = { Authorization: `Bearer ${keys.get(account)}` };
      const answer = await fetch(`${(urls as { production: string }).production}/v1/pets`, {
        headers,
      });
      assert.equal(answer.status, 200);
      await answer.text();
    }
  }
  const accounts = async (...args: string[]) => {
    const said = await named("usage", "--json", ...args);
    assert.equal(said.status, 0, said.err);
    return jsonOf<UsageReport[]>(said).map(({ account }) => account);
  };
  assert.deepEqual(await accounts(), ["often", "seldom", "never"], "nearest to a limit first");
  assert.deepEqual(await accounts("--over", "90%"), ["often"]);
  assert.deepEqual(await accounts("--over", "90.5"), []);
  assert.deepEqual(await accounts("--over", "100%"), []);
  assert.deepEqual(await accounts("--over", "89.999%", "--top", "9999999"), ["often"]);
  assert.deepEqual(await accounts("--top", "2"), ["often", "seldom"]);
  assert.deepEqual(await accounts("--plan", "free"), ["often", "never"]);
  assert.deepEqual(await accounts("--env", "staging"), []);
  const one = jsonOf<UsageReport>(await named("usage", "often", "--env", "production", "--json"));
  assert.equal(one.account, "often");
  const { out } = await named("usage", "--csv", "--plan", "free");
  const [head, first] = out.split("\r\n");
  assert.equal(head, "account,environment,plan,window,used,limit,remaining,reset");
  assert.match(first ?? "", /^often,production,free,day,9,10,1,\d{10}$/);
  assert.match(
    (await named("usage")).out,
    /^ACCOUNT .*\noften +production +free +day +9 +10 +90 %/,
  );
}

describe("usage of all accounts", () => {
  it("is filtered and told as JSON, CSV and a table, by the running gateway", async () => {
    await usedUp("memory");
  });

  it("and by the store that all gateways share", async () => {
    const redis = await startRedis();
    try {
      await usedUp(redis.url);
    } finally {
      await redis.close();
    }
  });

  it("refuses what it cannot read, and filters beside an ID, with 64", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    for (const [args, says] of [
      [["--env", "nowhere"], /Unknown environment "nowhere": expected production, staging/],
      [["--plan", "none"], /Unknown plan "none": expected free, pro/],
      [
        ["--over", "much"],
        /--over as a percentage below 1000%, such as 80%: the value is "much"$/m,
      ],
      [["--over", "1000"], /Cannot read --over as a percentage below 1000%/],
      [
        ["--top", "0"],
        /Cannot read --top as a number of accounts from 1 to 9999999: the value is "0"$/m,
      ],
      [["--top", "10000000"], /Cannot read --top as a number of accounts from 1 to/],
      [["acme", "--top", "3"], /--top chooses among all accounts: leave it out, or the ID/],
    ] as const) {
      const said = await runVerb(["usage", ...args, "--config", file]);
      assert.deepEqual([said.status, said.out], [64, ""]);
      assert.match(said.err, says);
    }
  });
});

describe("usage --csv of accounts of which only some have units included", () => {
  it("has the columns of what is included and of overage, empty for the others", async () => {
    const plans = { free: { month: 100 }, pro: { month: 200, included: { month: 2 } } };
    await using house = await openAudited({ config: { plans, bans: "off" } });
    const free = await house.issue();
    const pro = await house.issue({ plan: "pro" });
    for (const { key } of [free, pro, pro, pro]) await (await house.ask(key)).text();
    const csv = async (...args: string[]) => {
      const said = await runVerb(["usage", ...args, "--csv", "--config", house.file]);
      assert.equal(said.status, 0, said.err);
      return said.out
        .replaceAll(/,\d{10}/g, ",RESET")
        .trimEnd()
        .split("\r\n");
    };
    const columns = "account,environment,plan,window,used,limit,remaining,reset";
    const ofFree = `${free.account},production,free,month,1,100,99,RESET`;
    const [head, ...rows] = await csv();
    assert.equal(head, `${columns},included,overage`);
    assert.deepEqual(rows.toSorted(), [
      ...[`${pro.account},production,pro,month,3,200,197,RESET,2,1`, `${ofFree},,`].toSorted(),
    ]);
    assert.deepEqual(await csv(free.account), [columns, ofFree]);
  });
});

describe("usage of a key", () => {
  it("says that the counts are of the whole account, in words alone", async () => {
    await using house = await openAudited({ config: { bans: "off", history: "40d" } });
    const shop = await house.issue();
    const capped = await house.issue({ account: shop.account, caps: { day: 50 } });
    for (const { key } of [shop, shop, capped]) await (await house.ask(key)).text();
    const usage = async (...args: string[]) => {
      const said = await runVerb(["usage", ...args, "--config", house.file]);
      assert.equal(said.status, 0, said.err);
      return said.out;
    };
    const whole = `of account ${shop.account}: the counts are of all its keys`;
    assert.match(await usage(shop.id), new RegExp(`\n.*Key ${shop.id} is ${whole}\n$`));
    assert.match(
      await usage(capped.id),
      new RegExp(`Key ${capped.id} is ${whole}, except those of its caps, key\\.day\n$`),
    );
    assert.match(await usage(capped.id, "--days", "2"), new RegExp(`${capped.id} is ${whole}\n$`));
    assert.doesNotMatch(await usage(shop.account), /all its keys/);
    for (const format of ["--json", "--csv"]) {
      for (const period of [[], ["--days", "2"]]) {
        const said = await usage(shop.id, format, ...period);
        assert.equal(said, await usage(shop.account, format, ...period));
      }
    }
  });
});
