import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { type Folder, freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const NOON = Date.UTC(2026, 6, 15, 12);

describe("records as people read them", () => {
  let folder: Folder;
  let file: string;
  let nowMs = NOON;
  const said = async (...args: string[]) =>
    runVerb([...args, "--config", file], { nowMs, stdin: "" });
  /** The lines of one record: its id, and each name with its value. */
  const shown = async (...args: string[]) => {
    const [id, ...rows] = (await said(...args)).out.trimEnd().split("\n");
    const pairs = rows.map((row) => [row.slice(2, 14).trim(), row.slice(15)] as const);
    return { id, ...Object.fromEntries(pairs) };
  };
  const create = async (...args: string[]) =>
    jsonOf<{ id: string }>(
      await said("keys", "create", "--env", "production", "--plan", "free", "--json", ...args),
    ).id;

  beforeAll(async () => {
    folder = await openFolder();
    file = await writeConfig(folder, {});
  });
  afterAll(() => folder[Symbol.asyncDispose]());

  it("say of an empty list that it is empty, and of a search without a result that nothing matches", async () => {
    const none = "There are no accounts: `keys create` makes one with its first key\n";
    assert.equal((await said("accounts", "list")).out, none);
    await create("--account", "acme");
    assert.equal((await said("accounts", "list", "--plan", "pro")).out, "No account matches\n");
    assert.match(
      (await said("accounts", "list", "--plan", "free")).out,
      /^acme +production +free /m,
    );
  });

  it("show what a key may do, and say so where nothing bounds it", async () => {
    const plain = await create("--account", "plain");
    const bounds = [
      "--scope",
      "read",
      "--scope",
      "write",
      "--from",
      "192.0.2.0/24",
      "--from",
      "::1",
    ];
    const bound = await create(
      "--account",
      "bound",
      ...bounds,
      "--cap",
      "day=7",
      "--name",
      "first",
    );
    assert.deepEqual(await shown("keys", "show", "plain"), await shown("keys", "show", plain));
    assert.deepEqual(await shown("keys", "show", plain), {
      ...{ id: plain, name: "", plan: "free", environment: "production", account: "plain" },
      ...{ limits: "those of the plan", caps: "none", scopes: "none", from: "anywhere" },
      ...{ created: "2026-07-15 12:00:00Z", "last used": "never", state: "works" },
    });
    const { name, caps, scopes, from } = (await shown("keys", "show", bound)) as Record<
      string,
      string
    >;
    assert.deepEqual(
      [name, caps, scopes, from],
      ["first", "day=7", "read write", "192.0.2.0/24 ::1"],
    );
  });

  it("show every key of an account, and of an expired one since when it no longer works", async (t) => {
    t.onTestFinished(() => {
      nowMs = NOON;
    });
    const short = await create("--account", "several", "--expires", "1h");
    const long = await create("--account", "several");
    nowMs += 7_200_000;
    const table = (await said("keys", "show", "several")).out;
    assert.deepEqual(table.match(/^k_\S+/gm), [short, long]);
    const stateOf = async (key: string) =>
      ((await shown("keys", "show", key)) as { state?: string }).state;
    assert.equal(await stateOf(short), "expired 2026-07-15 13:00:00Z");
    nowMs = NOON;
    assert.equal(await stateOf(short), "works until 2026-07-15 13:00:00Z");
  });

  it("show the terms of an account, and its months only where they begin on another day than the first, or did until now", async () => {
    const key = await create("--account", "shop");
    const terms = { environment: "production", limits: "those of the plan", metadata: "none" };
    const created = "2026-07-15 12:00:00Z";
    assert.deepEqual(await shown("accounts", "show", "shop"), {
      ...{ id: "shop", ...terms, plan: "free", keys: key, created, state: "active" },
    });
    await said(
      "accounts",
      "set",
      "shop",
      "--limit",
      "day=9",
      "--meta",
      "tenant=42",
      "--anchor",
      "20",
    );
    await said("keys", "revoke", key);
    assert.deepEqual(await shown("accounts", "show", "shop"), {
      ...{ id: "shop", environment: "production", plan: "free", limits: "day=9" },
      months: "begin on day 20 from 2026-08-01 00:00:00Z on",
      ...{ metadata: "tenant=42", keys: "none works", created, state: "active" },
    });
    await create("--account", "back", "--anchor", "20");
    const months = async () =>
      ((await shown("accounts", "show", "back")) as { months?: string }).months;
    assert.equal(await months(), "begin on day 20");
    await said("accounts", "set", "back", "--anchor", "1");
    assert.equal(await months(), "begin on day 1 from 2026-07-20 00:00:00Z on");
  });
});

it("records that are gone from the store are told by a list that is empty for it, and by an ID that is unknown for it, with 1", async () => {
  const redis = await startRedis();
  try {
    const [port] = await freePorts(1);
    const admin = { listen: `127.0.0.1:${port}` };
    const config = { store: redis.url, keys: "redis", history: "40d", admin };
    await using house = await startTestGateway({ config });
    const { key } = await house.issue({ account: "acme" });
    await (await redis.client()).flushall();
    await eventually(async () => assert.equal((await house.admin("/readyz")).status, 503));
    const gone = "1 key and 1 account are gone from";
    const shown = await runVerb(["accounts", "show", "acme", "--config", house.file]);
    assert.deepEqual([shown.status, shown.out], [1, ""]);
    const unknown = 'Cannot find "acme": no key or account has this ID';
    assert.ok(shown.err.startsWith(`${unknown}. ${gone}`), shown.err);
    const ban = { method: "POST", body: JSON.stringify({ id: "acme", for: "1h" }) };
    for (const [path, how] of [
      ["/api/accounts/acme", {}],
      ["/api/accounts/acme/suspend", { method: "POST", body: "{}" }],
      ["/api/keys/acme", {}],
      ["/api/keys/find", { method: "POST", body: JSON.stringify({ key }) }],
      ["/api/bans", ban],
      ["/api/bans/acme", { method: "DELETE" }],
      ["/api/usage/acme", {}],
      ["/api/history?account=acme", {}],
    ] as const) {
      const asked = await house.admin(path, how);
      const { code, message } = (await asked.json()) as { code: string; message: string };
      assert.deepEqual([asked.status, code], [404, "unknown_id"], path);
      assert.ok(message.startsWith(`No key or account has this ID. ${gone}`), message);
    }
    for (const records of ["accounts", "keys"]) {
      const list = [records, "list", "--config", house.file];
      const { status, out, err } = await runVerb(list);
      assert.deepEqual([status, out], [1, ""], err);
      assert.ok(err.startsWith(`No ${records} are found: `) && err.includes(gone), err);
      const json = await runVerb([...list, "--json"]);
      assert.deepEqual([json.status, json.out, json.err], [1, "[]\n", err]);
    }
  } finally {
    await redis.close();
  }
});
