import assert from "node:assert/strict";
import { it } from "vitest";
import type {
  AccountOperations,
  OperationResult,
} from "../../../src/cli/access/account-operations.ts";
import { openAdminAccounts } from "../../../src/cli/access/admin-accounts.ts";
import type { Config } from "../../../src/config/config.ts";
import { runVerb } from "../kit.ts";
import { openAdmin, send } from "./admin-server.ts";

const STAGING = { listen: "127.0.0.1:1", keyTag: "test", upstreams: ["http://127.0.0.1:1"] };

type Ask = (accounts: AccountOperations) => Promise<OperationResult<unknown>>;
const ID = "a/b";
const NAMED = { id: ID, environment: "e 1" };

/** Each question about one account, as it is sent, and the members that its answer has. */
const OF_ONE: readonly (readonly [asked: string, Ask, body: string, members: string])[] = [
  [
    "GET /api/usage/a%2Fb?env=e+1",
    (accounts) => accounts.usage(NAMED),
    "",
    "account windows strikes ban",
  ],
  ["GET /api/counts/a%2Fb", (accounts) => accounts.countsOf({ id: ID }), "", "account at windows"],
  [
    "POST /api/accounts/a%2Fb/reset",
    (accounts) => accounts.reset({ id: ID }, ["day"]),
    '{"windows":["day"]}',
    "account windows",
  ],
  [
    "POST /api/bans",
    (accounts) => accounts.ban(ID, { lengthMs: 5, reason: undefined }),
    '{"id":"a/b","for":"5ms"}',
    "account until",
  ],
  [
    "POST /api/bans",
    (accounts) => accounts.ban(ID, { lengthMs: 5, reason: "bot" }),
    '{"id":"a/b","for":"5ms","reason":"bot"}',
    "account until",
  ],
  [
    "GET /api/bans/a%2Fb",
    (accounts) => accounts.banReasons(ID),
    "",
    "account environment strikes ban",
  ],
  ["DELETE /api/bans/a%2Fb", (accounts) => accounts.liftBan(ID), "", "account environment"],
];

const LISTS: readonly (readonly [asked: string, Ask])[] = [
  ["GET /api/bans", (accounts) => accounts.bans()],
  ["GET /api/counts?limit=10000", (accounts) => accounts.counts()],
  [
    "GET /api/usage?limit=10000&env=e&plan=p&over=80&top=5",
    (accounts) => accounts.usageOfAll({ environment: "e", plan: "p", over: 80, top: 5 }),
  ],
  [
    "GET /api/history?limit=10000&account=a%2Fb&env=e+1&plan=p&month=2026-10",
    (accounts) => accounts.history({ ...NAMED, plan: "p", period: { month: "2026-10" } }, () => {}),
  ],
  [
    "GET /api/history?limit=10000&days=3",
    (accounts) => accounts.history({ period: { days: 3 } }, () => {}),
  ],
];

async function asked(ask: Ask, status: number, answer: unknown) {
  await using admin = await openAdmin((response) => send(response, status, answer));
  const result = await ask(openAdminAccounts(admin.config as unknown as Config, false));
  return { result, sent: admin.questions.map((one) => [one.asked, one.body]) };
}

it.each(OF_ONE)(
  "a question about one account is sent as it is, and its answer has each member: %s",
  async (path, ask, body, members) => {
    const answer = Object.fromEntries(members.split(" ").map((name) => [name, 1]));
    const { result, sent } = await asked(ask, path === "POST /api/bans" ? 201 : 200, answer);
    assert.deepEqual([result.ok && result.value, sent], [answer, [[path, body]]]);
    for (const name of Object.keys(answer)) {
      const { result: lacking } = await asked(ask, 200, { ...answer, [name]: undefined });
      const why =
        "with store: memory the running gateway knows: what answered is no admin listener";
      assert.ok(!lacking.ok && lacking.message.includes(why), `without ${name}`);
    }
    const unknown = await asked(ask, 404, { code: "unknown_id", message: "No such ID" });
    const message = 'Cannot find "a/b": no key or account has this ID';
    assert.deepEqual(unknown.result, { ok: false, message });
  },
);

it.each(LISTS)("a question about all accounts is one for a whole list: %s", async (path, ask) => {
  const { result, sent } = await asked(ask, 200, []);
  assert.deepEqual([result.ok, sent], [true, [[path, ""]]]);
  const { result: other } = await asked(ask, 200, {});
  assert.ok(!other.ok && other.message.includes("with store: memory the running gateway knows"));
});

it("parts of a Cluster that a page of an answer lacks are named once, and make the verb end with 1", async () => {
  const parts = ["buckets 1 4 at 10.0.0.1:6379", "bucket 2 at 10.0.0.2:6379"];
  const missing = (named: readonly string[]) => ({ "X-Tollgate-Missing": named.join(", ") });
  await using admin = await openAdmin((response, { asked }) => {
    if (asked === "DELETE /api/bans/k_1") {
      response.writeHead(200, missing(parts.slice(1)));
      response.end('{"account":"k_1","environment":"staging","lifted":true}');
    } else if (asked.endsWith("after=1")) {
      response.writeHead(200, missing(parts)).end("[]");
    } else {
      const link = { Link: '</api/bans?after=1>; rel="next"' };
      response.writeHead(200, { ...link, ...missing(parts.slice(0, 1)) }).end("[]");
    }
  });
  const accounts = openAdminAccounts(admin.config as unknown as Config, false);
  assert.deepEqual(await accounts.bans(), { ok: true, value: [], missing: parts });
  const lifted = await accounts.liftBan("k_1");
  assert.deepEqual(lifted.ok && lifted.missing, parts.slice(1));
  const whole = await asked((accounts) => accounts.bans(), 200, []);
  assert.deepEqual(whole.result, { ok: true, value: [] });
});

it("the history of an account that is not known names it", async () => {
  const ask: Ask = (accounts) => accounts.history({ ...NAMED, period: { days: 1 } }, () => {});
  const { result } = await asked(ask, 404, { code: "unknown_id", message: "No such ID" });
  const message = 'Cannot find "a/b": no key or account has this ID';
  assert.deepEqual(result, { ok: false, message });
});

it("a verb about an address asks for its counts in the environment that was named", async () => {
  const address = "addr:192.0.2.1";
  const holder = { account: address, environment: "staging", plan: "free" };
  const windows = [{ window: "minute", units: 3, used: 3, limit: 60, remaining: 57, reset: 60 }];
  await using admin = await openAdmin((response, { asked }) => {
    const environments = { staging: STAGING };
    const running = { environments, plans: { free: { minute: 60 } }, hash: "x" };
    const told = { ...holder, windows, strikes: 0, ban: null };
    send(response, 200, asked === "GET /api/config" ? running : told);
  });
  const path = encodeURIComponent(address);
  for (const [verb, asked, says] of [
    ["accounts reset", `POST /api/accounts/${path}/reset`, /staging are at 0: minute had 3\n$/],
    ["usage", `GET /api/usage/${path}`, /^Account addr:192\.0\.2\.1: staging, plan free\n/],
  ] as const) {
    const named = [address, "--env", "staging", "--admin", admin.origin];
    const { out } = await runVerb([...verb.split(" "), ...named]);
    assert.match(out, says);
    assert.equal(admin.questions.at(-1)?.asked, `${asked}?env=staging`);
  }
});
