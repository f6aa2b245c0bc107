import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import { DEPRECATED_API } from "../../support/gateway/deprecated-api.ts";
import type { IssuedKey, TestGateway } from "../../support/gateway/house.ts";
import { openAudited } from "../audit-kit.ts";
import { runVerb } from "../kit.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const PLANS = {
  free: { minute: 2, day: 1000, observe: { hour: 1 } },
  pro: { month: 200, included: { month: 2 }, concurrent: 7 },
  agreed: "custom",
};

/** A gateway whose clock is the test's, with what its accounts have used at noon. */
describe("a verb tells people", () => {
  let house: TestGateway;
  let nowMs = NOON;
  let free: IssuedKey;
  const refused: string[] = [];
  const says = async (args: readonly string[], text: string | RegExp) => {
    const said = await runVerb([...args, "--config", house.file], { nowMs });
    assert.deepEqual([said.status, said.err], [0, ""]);
    if (typeof text === "string") assert.equal(said.out, text);
    else assert.match(said.out, text);
    return said.out;
  };
  const ask = async (key: string) => {
    const answer = await house.ask(key, "/v1/old");
    await answer.text();
    if (answer.status === 429) refused.push(answer.headers.get("x-request-id") ?? "");
  };

  beforeAll(async () => {
    house = await openAudited({
      config: {
        ...{ plans: PLANS, history: "400d" },
        bans: { strikes: 2, grace: "1ms", duration: "1h" },
      },
      environment: { api: "./api.yaml" },
      files: { "api.yaml": DEPRECATED_API },
      now: () => nowMs,
    });
    await says(["bans", "list"], "No account is banned\n");
    await says(["usage"], "No account matches\n");
    await says(
      ["deprecations"],
      `production: GET /v1/older, gone for 2386 days, since 2020-01-02 00:00:00Z
  No account has called it up to a minute ago

production: GET /v1/old, 36329 days left, until 2126-01-01 00:00:00Z
  No account has called it up to a minute ago
`,
    );
    free = await house.issue({ account: "often" });
    const pro = await house.issue({ plan: "pro", account: "seldom" });
    for (const { key } of [free, free, free, pro, pro, pro]) await ask(key);
  });
  afterAll(() => house[Symbol.asyncDispose]());

  it("what all accounts have used, those nearest to a limit first", async () => {
    await says(
      ["usage"],
      `ACCOUNT  ENVIRONMENT  PLAN  WINDOW  USED  LIMIT  SHARE  RESET
often    production   free  minute     2      2  100 %  2026-07-15 12:01:00Z
often    production   free  day        2   1000  0 %    2026-07-16 00:00:00Z
seldom   production   pro   month      3    200  1 %    2026-08-01 00:00:00Z
`,
    );
    await says(
      ["usage", "--days", "1"],
      `ACCOUNT  ENVIRONMENT  PLAN  DAY         ADMITTED  UNITS  REFUSED
often    production   free  2026-07-15         2      2        1
seldom   production   pro   2026-07-15         3      3        0
`,
    );
    await says(
      ["usage", "--month", "2026-07"],
      `ACCOUNT  ENVIRONMENT  PLAN  DAY         ADMITTED  UNITS  REFUSED  OVERAGE
often    production   free  2026-07-15         2      2        1        0
seldom   production   pro   2026-07-15         3      3        0        1
`,
    );
  });

  it("of one account also what is observed, included and beyond that", async () => {
    await says(
      ["usage", "often"],
      `Account often: production, plan free
WINDOW  USED  LIMIT  REMAINING  RESET
minute     2      2          0  2026-07-15 12:01:00Z
day        2   1000        998  2026-07-16 00:00:00Z
hour       2      1          0  2026-07-15 13:00:00Z  observed
Strikes: 0; not banned
`,
    );
    await says(
      ["usage", "seldom"],
      `Account seldom: production, plan pro
WINDOW  USED  LIMIT  REMAINING  RESET
month      3    200        197  2026-08-01 00:00:00Z  included: 2, overage: 1
Strikes: 0; not banned
`,
    );
    const csv = await says(["usage", "seldom", "--csv"], /^account,.*,reset,included,overage\r\n/);
    assert.equal(csv.split("\r\n")[1], "seldom,production,pro,month,3,200,197,1785542400,2,1");
  });

  it("the plans with what they limit, observe and hold at once, and who is on them", async () => {
    await says(
      ["plans", "list"],
      `PLAN    LIMITS              INCLUDED  OBSERVED  CONCURRENT  ACCOUNTS
free    minute=2 day=1000   -         hour=1    -                  1
pro     month=200           month=2   -         7                  1
agreed  agreed per account  -         -         -                  0
`,
    );
  });

  it("why a request was refused, and from when on it would have passed", async () => {
    const [id = ""] = refused;
    await says(
      ["explain", id],
      new RegExp(
        `^429 rate_limited  GET /v1/old of account often, plan free, decided 2026-07-15 12:00:00Z \\(store\\)
The minute limit is 2 units: 2 were used, and the request costs 1
WINDOW  USED  LIMIT  FROM                  RESET
minute     2      2  2026-07-15 12:00:00Z  2026-07-15 12:01:00Z  used up
day        2   1000  2026-07-15 00:00:00Z  2026-07-16 00:00:00Z
Strikes: 0
It would pass from 2026-07-15 12:01:00Z on, by what was counted then
Configuration [0-9a-f]{8}, request ${id}
$`,
      ),
    );
  });

  it("who calls what goes away, below the operation", async () => {
    const out = await says(["deprecations"], /No account has called it/);
    assert.equal(
      out.split("\n\n")[1],
      `production: GET /v1/old, 36329 days left, until 2126-01-01 00:00:00Z
ACCOUNT  REQUESTS  LAST
often           3  2026-07-15 12:00:00Z
seldom          3  2026-07-15 12:00:00Z
`,
    );
  });

  it("how the gateway is, which configuration it has, and who shares its store", async () => {
    await says(
      ["status"],
      /^Tollgate is ready\n( {2}\w+ +ok\n){5} {2}in force {3}[0-9a-f]{8} {2}the file as it is now\n$/,
    );
    await says(
      ["status", "--all"],
      /^gateway .* config +started +requests\/s +refusals\/s +store ms +why\n\S+ \* +ready +\S+ +[0-9a-f]{8} +2026-07-15 12:00:00Z +[\d.]+ +[\d.]+ +(?:-|[\d.]+)\n1 gateway, [\d.]+ requests\/s, [\d.]+ refusals\/s; \* answers here\n$/,
    );
    await says(["reload"], /^The gateway has read its configuration: [0-9a-f]{8} is in force\n$/);
  });

  it("a configuration that is not that of the file, and what the file names in its place", async () => {
    const { file, directory } = house;
    const other = `${directory}/other.yaml`;
    await writeFile(other, (await readFile(file, "utf8")).replace("minute: 2", "minute: 3"));
    const out = async (verb: string) => (await runVerb([verb, "--config", other], { nowMs })).out;
    assert.match(await out("status"), / {2}not the file as it is now\n$/);
    assert.match(await out("reload"), /is in force, which is not that of .*other\.yaml\n$/);
  });

  it("which windows a reset set to 0, and how much each had", async () => {
    await house.issue({ account: "reset" });
    const at0 = "The windows of reset in production are at 0:";
    await says(["accounts", "reset", "reset"], `${at0} no window runs\n`);
    const { key } = await house.issue({ account: "reset" });
    await ask(key);
    await says(["accounts", "reset", "reset", "--window", "day"], `${at0} day had 1\n`);
    const rest = "minute had 1, hour had 1, day had 0";
    await says(["accounts", "reset", "reset"], `${at0} ${rest}\n`);
  });

  it("a ban by hand from its beginning to its end", async () => {
    const until = "2026-07-15 13:00:00Z";
    const add = ["bans", "add", "seldom", "--for", "1h", "--reason", "scrapes"];
    await says(add, `seldom in production is banned until ${until}\n`);
    const rows = `ACCOUNT  ENVIRONMENT  UNTIL                 OFFENCES
seldom   production   2026-07-15 13:00:00Z         0
`;
    await says(["bans", "list"], rows);
    await says(["usage"], new RegExp(`^seldom .* banned until ${until}$`, "m"));
    const last = new RegExp(`\nStrikes: 0; banned until ${until}, offences: 0\n$`);
    await says(["usage", "seldom"], last);
    const events = `Bans by their events:
     AT                    WHAT
ban  2026-07-15 12:00:00Z  until ${until}, imposed by hand: scrapes
`;
    const now = `banned since 2026-07-15 12:00:00Z until ${until}, imposed by hand: scrapes`;
    const head = "Account seldom (production):";
    await says(["bans", "why", "seldom"], `${head} ${now}; running strikes: 0\n${events}`);
    await says(["bans", "lift", "seldom"], "The ban of seldom in production is lifted\n");
    const lifted = events.replace(until, `${until}, but lifted 2026-07-15 12:00:00Z`);
    await says(["bans", "why", "seldom"], `${head} not banned, running strikes: 0\n${lifted}`);
    await says(["bans", "why", "often"], /\nNo event of a ban of it is remembered\n$/);
  });

  it("an earned ban with its strikes, of which the store and the event tell the same", async () => {
    const { key } = await house.issue({ account: "earned" });
    for (let i = 0; i < 6; i++) {
      await ask(key);
      nowMs += 1_000;
    }
    nowMs = NOON + 30_000;
    const struck = `strike  2026-07-15 12:00:03Z
strike  2026-07-15 12:00:04Z
`;
    const head = "        AT                    WHAT\n";
    await says(
      ["bans", "why", "earned"],
      `Account earned (production): banned since 2026-07-15 12:00:04Z until 2026-07-15 13:00:04Z, earned, offence 1; running strikes: 0
${head}${struck}Bans by their events:
${head}ban     2026-07-15 12:00:04Z  until 2026-07-15 13:00:04Z, by the minute limit, offence 1
${struck}`,
    );
    const id = refused.at(-1) ?? "";
    await says(
      ["explain", id],
      /^429 key_banned .*\n(?:.*\n)*Strikes: 0; banned until 2026-07-15 13:00:04Z\n/,
    );
  });

  it("what was set of accounts, with limits of their own and the day on which their months begin", async () => {
    await house.issue({ account: "one" });
    await house.issue({ account: "two", plan: "pro" });
    const first = "Account one is on plan free; its months begin on day 1\n";
    await says(["accounts", "set", "one", "--anchor", "1"], first);
    const own = "with its own limits day=7";
    const months = "its months begin on day 20 from 2026-08-01 on";
    await says(
      ["accounts", "set", "one", "two", "--limit", "day=7", "--anchor", "20"],
      `Account one is on plan free, ${own}; ${months}\nAccount two is on plan pro, ${own}; ${months}\n`,
    );
    await says(["accounts", "set", "one", "--no-limits"], "Account one is on plan free\n");
    await says(["accounts", "set", "two", "--meta", "a=b"], `Account two is on plan pro, ${own}\n`);
    await says(
      ["accounts", "set", "--on", "pro", "--plan", "free", "--dry-run"],
      "seldom\ntwo\n2 accounts would be changed\n",
    );
    await says(["accounts", "set", "--on", "pro", "--plan", "free"], "2 accounts are changed\n");
    await says(["accounts", "set", "--on", "pro", "--plan", "free"], "0 accounts are changed\n");
  });

  it("that an account is suspended, until when and why, and no more once it is resumed", async () => {
    await house.issue({ account: "unpaid" });
    const row = (state: string) => new RegExp(`^unpaid +production +free +1 +${state}$`, "m");
    const suspend = ["accounts", "suspend", "unpaid"];
    const state = (text: string) => new RegExp(`^unpaid\n[^]*\n {2}state {8}${text}\n$`);
    await says([...suspend, "--for", "1h"], state("suspended until 2026-07-15 13:00:\\d\\dZ"));
    await says([...suspend, "--reason", "since May"], state("suspended: since May"));
    await says(["accounts", "list"], row("suspended: since May"));
    await says(["accounts", "resume", "unpaid"], state("active"));
    await says(["accounts", "list"], row("active"));
  });

  it("until when a key works that was rotated, and which one follows it", async () => {
    const { id } = await house.issue({ account: "rotated" });
    const out = await says(
      ["keys", "rotate", id, "--grace", "1h"],
      new RegExp(`\nThe old key ${id} works until 2026-07-15 13:00:\\d\\dZ\n$`),
    );
    const next = /^Key (k_\w+): production, plan free, account rotated\. It is shown this once:\n/;
    const [, follower] = next.exec(out) ?? [];
    const works = `works until 2026-07-15 13:00:\\d\\dZ, then ${follower}`;
    await says(["keys", "list"], new RegExp(`^${id} .* never +${works}$`, "m"));
    await says(["keys", "list"], new RegExp(`^${follower} .* never +works$`, "m"));
  });

  it("what is included of a month that has not used all of it", async () => {
    const { key } = await house.issue({ plan: "pro", account: "little" });
    await ask(key);
    await says(["usage", "little"], /^month +1 .* included: 2$/m);
  });
});
