import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { type Folder, freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

/**
 * A client that goes on asking is banned within a second of its limit. A Redis of a busy machine that
 * answers after 50 ms has charged a request that is asked again.
 */
const MORE = `bans: { strikes: 2, within: 10s, grace: 50ms, duration: 10m }
storeTimeout: 1s
history: 30d
`;

const TOKEN = "a token of more than thirty-two characters".replaceAll(" ", "-");

type Gateway = { readonly file: string; readonly url: string; readonly adminUrl: string };

/** The same promises wherever the accounts are. */
function describeAccounts(
  name: string,
  open: () => Promise<Gateway>,
  unbanned = /^Account quiet is not banned$/m,
): void {
  describe(name, () => {
    let file: string;
    let url: string;
    let adminUrl: string;
    beforeAll(async () => {
      ({ file, url, adminUrl } = await open());
    });
    const verb = (...args: string[]) => runVerb([...args, "--config", file]);
    const issue = async (account: string) => {
      const args = ["keys", "create", "--env", "production", "--plan", "free"];
      return jsonOf<{ id: string; key: string }>(
        await verb(...args, "--account", account, "--json"),
      );
    };
    const get = async (key: string) => {
      const headers = { Authorization: `Bearer ${key}` };
      const answer = await fetch(`${url}/v1/pets`, { headers });
      return { status: answer.status, body: (await answer.json()) as { code?: string } };
    };
    const firstRequest = (key: string) =>
      eventually(async () => assert.equal((await get(key)).status, 200));

    it("usage tells the documented members, by account and by key, and charges nothing", async () => {
      const { id, key } = await issue("reader");
      await firstRequest(key);
      for (const named of ["reader", id, "reader"]) {
        const told = jsonOf<{ windows: { reset: number }[] }>(await verb("usage", named, "--json"));
        const resets = told.windows.map(({ reset }) => reset);
        assert.deepEqual(told, {
          account: "reader",
          environment: "production",
          plan: "free",
          windows: [
            { window: "day", limit: 3, used: 1, remaining: 2, reset: resets[0] },
            { window: "month", limit: 1000, used: 1, remaining: 999, reset: resets[1] },
          ],
          strikes: 0,
          ban: null,
        });
        assert.ok(each(resets).every((reset) => reset % 86_400 === 0 && reset > Date.now() / 1000));
      }
      const people = (await verb("usage", "reader")).out;
      assert.match(people, /^Account reader: production, plan free\nWINDOW +USED +LIMIT/);
    });

    it("a ban is listed, told by usage, and lifted with effect within a second", async () => {
      const { id, key } = await issue("hammer");
      await firstRequest(key);
      await eventually(async () => assert.equal((await get(key)).body.code, "key_banned"));
      const [ban, ...others] = jsonOf<{ until: number }[]>(await verb("bans", "list", "--json"));
      assert.deepEqual(
        [ban, others.length],
        [{ account: "hammer", environment: "production", until: ban?.until, offences: 1 }, 0],
      );
      const leftSeconds = (ban?.until ?? 0) - Date.now() / 1000;
      assert.ok(leftSeconds > 570 && leftSeconds <= 601, `${leftSeconds} s`);
      const usage = jsonOf<{ ban: unknown }>(await verb("usage", id, "--json"));
      assert.deepEqual(usage.ban, { until: ban?.until, offences: 1 });
      assert.match((await verb("bans", "list")).out, /^ACCOUNT.*\nhammer +production/);

      const lifted = await verb("bans", "lift", id, "--json");
      assert.deepEqual(jsonOf(lifted), {
        account: "hammer",
        environment: "production",
        lifted: true,
      });
      await eventually(async () => assert.equal((await get(key)).body.code, "rate_limited"));
      assert.equal((await verb("bans", "list")).out, "No account is banned\n");
    });

    it("an ID in another environment than --env names is told with its own, and one that is nowhere as unknown", async () => {
      const { id } = await issue("settled");
      const asks = [["usage"], ["usage", "--days", "2"], ["accounts", "reset"]];
      for (const ask of asks) {
        assert.equal((await verb(...ask, id, "--env", "production")).status, 0);
        for (const [named, words] of [
          ["settled", / in that environment: it is in production\n$/],
          [id, / in that environment: it is in production\n$/],
          ["k_nobody", /(?: in staging)?: no key or account has this ID\n$/],
        ] as const) {
          const { status, out, err } = await verb(...ask, named, "--env", "staging", "--json");
          assert.deepEqual([status, out], [1, ""], `${ask} ${named}`);
          assert.match(err, words);
          assert.ok(err.startsWith(`Cannot find "${named}"`), err);
        }
      }
    });

    it("an unknown ID, and one that is not banned, end with 1 in words", async () => {
      const { id } = await issue("quiet");
      for (const [args, says] of [
        [["usage", "k_nobody"], /No key or account has this ID|no key or account has this ID/],
        [["bans", "lift", "k_nobody"], /o key or account has this ID/],
        [["bans", "lift", "quiet"], unbanned],
        [["bans", "lift", id], unbanned],
      ] as const) {
        const said = await eventually(async () => {
          const one = await verb(...args, "--json");
          assert.match(one.err, says);
          return one;
        });
        assert.deepEqual({ status: said.status, out: said.out }, { status: 1, out: "" });
      }
      const env = { TOLLGATE_ADMIN_TOKEN: TOKEN };
      const byAdmin = await runVerb(["bans", "lift", "quiet", "--admin", adminUrl], { env });
      assert.deepEqual([byAdmin.status, byAdmin.out], [1, ""]);
      assert.match(byAdmin.err, unbanned, "the same words by --admin");
    });
  });
}

type Closer = () => Promise<unknown>;

async function openGateway(folder: Folder, store: string, closers: Closer[]): Promise<Gateway> {
  const backend = await startTestUpstream();
  closers.push(() => backend.close());
  const [admin = 0] = await freePorts(1);
  const file = await writeConfig(folder, {
    store,
    admin,
    token: TOKEN,
    productionUpstream: backend.port,
    free: "{ day: 3, month: 1000 }",
    more: MORE,
  });
  const gateway = startTollgate(["start", "--config", file]);
  closers.push(() => gateway.stop());
  const { urls } = await gateway.line(({ msg }) => msg === "serving");
  const { production: url = "" } = urls as Record<string, string>;
  return { file, url, adminUrl: `http://127.0.0.1:${admin}` };
}

describe("bans and usage", () => {
  let folder: Folder;
  const closers: Closer[] = [];
  beforeAll(async () => {
    folder = await openFolder();
  });
  afterAll(async () => {
    for (const close of closers.reverse()) await close();
    await folder[Symbol.asyncDispose]();
  });

  describeAccounts("with the memory store, through the admin listener", () =>
    openGateway(folder, "memory", closers),
  );
  it("end with 1, without telling a token, where the gateway has another one", async () => {
    const right = await readFile(join(folder.path, "tollgate.yaml"), "utf8");
    await using wrong = await openFolder();
    const file = join(wrong.path, "tollgate.yaml");
    const other = TOKEN.replace("a-", "b-");
    await writeFile(file, right.replace(TOKEN, other));
    const said = await runVerb(["bans", "list", "--config", file, "--json"]);
    assert.deepEqual({ status: said.status, out: said.out }, { status: 1, out: "" });
    assert.match(said.err, /token is not valid.*admin\.listen/);
    assert.ok(!said.err.includes(other) && !said.err.includes(TOKEN));
  });

  describeAccounts(
    "with Redis, from the store itself",
    async () => {
      const redis = await startRedis();
      closers.push(() => redis.close());
      return openGateway(folder, redis.url, closers);
    },
    /^Account quiet is not banned in the store; gateways that knew a ban of it forget it$/m,
  );
});

describe("bans and usage without a gateway", () => {
  it("end with 1 and name admin.listen with the memory store", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    for (const settings of [{ admin }, { admin: "off" as const }, { admin: 0 }]) {
      const file = await writeConfig(folder, settings);
      for (const args of [
        ["bans", "list"],
        ["bans", "lift", "x"],
        ["usage", "x"],
      ]) {
        const said = await runVerb([...args, "--config", file, "--json"]);
        assert.deepEqual({ status: said.status, out: said.out }, { status: 1, out: "" });
        const only = "and with store: memory the running gateway knows";
        assert.match(
          said.err,
          new RegExp(`^Cannot ask the gateway.*, ${only}: .*admin|admin.*${only}`),
        );
      }
    }
  });

  it("end with 1 and name the store, without its password, when Redis is away", async () => {
    await using folder = await openFolder();
    const [port = 0] = await freePorts(1);
    const file = await writeConfig(folder, { store: `redis://:hunter2@127.0.0.1:${port}` });
    for (const args of [
      ["bans", "list"],
      ["bans", "lift", "x"],
    ]) {
      const said = await runVerb([...args, "--config", file, "--json"]);
      assert.deepEqual({ status: said.status, out: said.out }, { status: 1, out: "" });
      assert.match(said.err, new RegExp(`127\\.0\\.0\\.1:${port}`));
      assert.doesNotMatch(said.err, /hunter2/);
    }
  });
});
