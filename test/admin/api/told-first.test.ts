import assert from "node:assert/strict";
import { it } from "vitest";
import { API_ROUTES } from "../../../src/admin/api/routes.ts";
import { findById } from "../../../src/core/keys/record-index.ts";
import type { AccountRecord, KeyRecord } from "../../../src/core/keys/records.ts";
import { encodeAccount, encodeKey } from "../../../src/stores/keys/records/record-format.ts";
import { NOON_MS, openAdminHouse } from "../admin-house.ts";

type Description = {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};
type Operation = { readonly responses: Readonly<Record<string, { readonly headers?: object }>> };

const FREE = { environment: "production", plan: "free", account: "acme" };

it("a change of records is read by every process before its answer, and a refused one by none", async () => {
  await using house = await openAdminHouse();
  house.made.takesMs = 30;
  const made = await house.ask("POST", "/api/keys", { body: FREE });
  const { id, key } = made.json<{ id: string; key: string }>();
  for (const [method, path, body, spreads] of [
    ["PATCH", `/api/keys/${id}`, { name: "web" }, 2],
    ["PATCH", "/api/keys/k_none", { name: "web" }, 2],
    ["PATCH", "/api/accounts/acme", { plan: "pro" }, 3],
    ["PATCH", "/api/accounts/acme", { plan: "none" }, 3],
    ["POST", "/api/accounts/acme/suspend", {}, 4],
    ["POST", "/api/accounts/acme/resume", {}, 5],
    ["POST", `/api/keys/${id}/rotate`, {}, 6],
    ["POST", `/api/keys/${id}/revoke`, {}, 7],
    ["POST", "/api/keys/find", { key }, 7],
    ["POST", "/api/keys/import", { records: [], dryRun: true }, 7],
    ["POST", "/api/keys/refresh", {}, 8],
  ] as const) {
    const got = await house.ask(method, path, { body });
    assert.equal(house.made.spreads, spreads, `${method} ${path}: ${got.text}`);
  }
});

it("each change of keys, accounts and records, and each list that waits for the processes, names those that did not answer, as the description says", async () => {
  await using house = await openAdminHouse();
  Object.assign(house.config, { historyMs: 30 * 86_400_000 });
  house.made.silent = [1, 3];
  const made = await house.ask("POST", "/api/keys", { body: FREE });
  const { id, key } = made.json<{ id: string; key: string }>();
  const { paths } = (await house.ask("GET", "/api/openapi.json")).json<Description>();
  for (const [method, path, body, names] of [
    ["POST", "/api/keys", FREE, true],
    ["POST", "/api/keys/find", { key }, true],
    ["POST", "/api/keys/import", { records: [] }, true],
    ["PATCH", "/api/records", { changes: [] }, true],
    ["PATCH", "/api/keys/{id}", { name: "web" }, true],
    ["PATCH", "/api/accounts?plan=free", { meta: { tenant: "42" } }, true],
    ["PATCH", "/api/accounts/{id}", { plan: "pro" }, true],
    ["POST", "/api/accounts/{id}/suspend", {}, true],
    ["POST", "/api/accounts/{id}/resume", {}, true],
    ["POST", "/api/keys/{id}/rotate", {}, true],
    ["POST", "/api/keys/{id}/revoke", {}, true],
    ["POST", "/api/keys/refresh", {}, true],
    ["GET", "/api/keys", undefined, true],
    ["GET", "/api/keys/{id}", undefined, true],
    ["GET", "/api/history", undefined, true],
    ["GET", "/api/deprecations", undefined, true],
    ["GET", "/api/accounts/{id}", undefined, false],
    ["GET", "/api/records", undefined, false],
    ["POST", "/api/reload", {}, false],
  ] as const) {
    const got = await house.ask(method, path.replace("{id}", id), body && { body });
    const named = names ? "workers 1 3" : undefined;
    assert.equal(got.fields["x-tollgate-missing"], named, `${method} ${path}: ${got.text}`);
    const [template = ""] = path.split("?");
    const { headers = {} } = paths[template]?.[method.toLowerCase()]?.responses[got.status] ?? {};
    assert.equal("X-Tollgate-Missing" in headers, names, `${method} ${path} is described so`);
  }
  const refused = await house.ask("GET", "/api/deprecations?limit=none");
  assert.deepEqual([refused.status, refused.fields["x-tollgate-missing"]], [400, undefined]);
  house.made.silent = [];
  const all = await house.ask("GET", "/api/keys");
  assert.deepEqual([all.status, all.fields["x-tollgate-missing"]], [200, undefined]);
});

it("the records are read again for a command, and a store that is away is told by their health", async () => {
  await using house = await openAdminHouse();
  let reads = 0;
  const health: { ok: boolean; why?: string } = { ok: true };
  const refresh = async () => {
    reads += 1;
    await new Promise((resolve) => setTimeout(resolve, 20));
    Object.assign(health, { ok: false, why: "the records are older" });
    throw new Error("the store is away");
  };
  Object.assign(house.keys, { refresh, health: () => health });
  const got = await house.ask("POST", "/api/keys/refresh");
  const known = { ok: false, why: "the records are older", read: false, withoutLimits: [] };
  assert.deepEqual([got.status, got.json(), reads], [200, known, 1], got.text);
});

it("the last use of keys and the calls of deprecated operations are told to the store before they are shown", async () => {
  await using house = await openAdminHouse();
  house.made.takesMs = 30;
  const { id, key } = (await house.ask("POST", "/api/keys", { body: FREE })).json();
  const asked = [
    ["GET", "/api/keys"],
    ["GET", `/api/keys/${id}`],
    ["POST", "/api/keys/find"],
    ["GET", "/api/deprecations"],
  ] as const;
  for (const [i, [method, path]] of asked.entries()) {
    const body = method === "POST" ? { body: { key } } : {};
    assert.equal((await house.ask(method, path, body)).status, 200);
    assert.equal(house.made.flushes, i + 1, path);
  }
  await house.ask("GET", "/api/accounts");
  assert.equal(house.made.flushes, asked.length, "accounts show neither");
});

it("the usage by day is told to the store before its first page, and not again for the rest", async () => {
  await using house = await openAdminHouse();
  house.made.takesMs = 100;
  Object.assign(house.config, { historyMs: 30 * 86_400_000 });
  await house.ask("POST", "/api/keys", { body: { ...FREE, account: "acme" } });
  for (const [query, flushes] of [
    ["", 1],
    ["?after=acme+2026-05-01", 1],
    ["?days=2", 2],
  ] as const) {
    assert.equal((await house.ask("GET", `/api/history${query}`)).status, 200);
    assert.equal(house.made.flushes, flushes, query);
  }
});

it("changes of records that are none are refused, and no fault of the gateway", async () => {
  await using house = await openAdminHouse();
  const whole = { record: "key", before: null, after: "{}" };
  for (const change of [
    ...[null, 7, {}, { ...whole, record: "plan" }, { ...whole, before: undefined }],
    ...[
      { ...whole, before: 1 },
      { ...whole, after: undefined },
    ],
  ]) {
    const got = await house.ask("PATCH", "/api/records", { body: { changes: [change] } });
    const { code, message } = got.json();
    assert.deepEqual([got.status, code], [400, "bad_request"], JSON.stringify(change));
    assert.match(String(message), /"changes" must be a list of \{"record": /);
  }
  assert.deepEqual(house.logged, []);
});

it("a request that fails here is told in the log with the reason, and to its client without it", async () => {
  await using house = await openAdminHouse();
  house.reloaded = () => Promise.reject(new Error("out of order"));
  house.checksOf = () => assert.fail("out of order");
  for (const [method, path] of [
    ["POST", "/api/reload"],
    ["GET", "/readyz/production"],
  ] as const) {
    const got = await house.ask(method, path, method === "POST" ? { body: {} } : {});
    const message = "The admin listener failed: the log says why";
    assert.deepEqual(got.json(), { code: "internal_error", message, status: 500 });
    assert.equal(got.status, 500);
    const told = JSON.stringify(["admin_request_failed", { why: "out of order" }]);
    assert.equal(house.logged.splice(0).join(), told, path);
    assert.deepEqual(house.errors.splice(0), ["admin_request_failed"]);
  }
});

it("a body of one mistake or many names each, and what is expected in its place", async () => {
  await using house = await openAdminHouse();
  for (const [path, body, message] of [
    ["/api/keys/find", {}, '"key" is required (a text)'],
    ["/api/reload", { now: 1 }, '"now" is unknown (there is none to send)'],
    ["/api/reload", { 'n"o': 1 }, '"n\\"o" is unknown (there is none to send)'],
    ["/api/keys/find", { kee: 1, key: 5 }, '"kee" is unknown (expected key); "key" must be a text'],
    [
      "/api/keys",
      { ...FREE, meta: { a: 1 } },
      '"meta" must be an object of texts such as {"tenant": "42"}',
    ],
    ["/api/keys", { ...FREE, scopes: "beta" }, '"scopes" must be a list of texts'],
    ["/api/keys", { ...FREE, count: "2" }, '"count" must be a number'],
    [
      "/api/keys",
      { ...FREE, expires: "soon", limits: { minute: "5" } },
      '"expires" must be a duration such as 10s, 5m, 24h or 90d: the value is "soon"; "limits" must be an object of numbers such as {"minute": 500}',
    ],
    [
      "/api/keys",
      { ...FREE, expires: 90 },
      '"expires" must be a duration such as 10s, 5m, 24h or 90d: the value is 90',
    ],
    [
      "/api/keys/import",
      { records: {}, plain: 1 },
      '"records" must be a list; "plain" must be true or false',
    ],
  ] as const) {
    const got = await house.ask("POST", path, { body });
    assert.deepEqual([got.status, got.json().message], [400, `Cannot use the body: ${message}`]);
  }
  const endless = await house.ask("PATCH", "/api/keys/k", { body: { expires: "always" } });
  assert.equal(
    endless.json().message,
    'Cannot use the body: "expires" must be a duration such as 10s, 5m, 24h or 90d, or "never": the value is "always"',
  );
  const odd = Object.fromEntries(Array.from({ length: 25 }, (_, i) => [`x${i}`, 1]));
  const got = await house.ask("POST", "/api/reload", { body: odd });
  assert.equal(String(got.json().message).split("; ").length, 20, "no more than twenty");
});

it("an import and a change of records have room for 100,000 keys", async () => {
  await using house = await openAdminHouse();
  const roomy = API_ROUTES.filter(({ contract }) => contract.bodyBytesMax !== undefined);
  assert.deepEqual(
    roomy.map(({ method, template, contract }) => [method, template, contract.bodyBytesMax]),
    [
      ["POST", "/api/keys/import", 64 * 2 ** 20],
      ["PATCH", "/api/records", 64 * 2 ** 20],
    ],
  );
  const blanks = " ".repeat(2 ** 20);
  for (const [method, path, body] of [
    ["POST", "/api/keys/import", `{"records":[]${blanks}}`],
    ["PATCH", "/api/records", `{"changes":[]${blanks}}`],
  ] as const) {
    assert.equal((await house.ask(method, path, { body })).status, 200, path);
  }
});

it("a ban by hand lasts a millisecond at least and 100 years at most, and is a conflict where bans are off", async () => {
  await using house = await openAdminHouse();
  assert.equal((await house.ask("POST", "/api/keys", { body: FREE })).status, 201);
  for (const length of ["0s", "36526d"]) {
    const got = await house.ask("POST", "/api/bans", { body: { id: "acme", for: length } });
    const message = `Cannot use the length ${length}: it must be from 1ms to 36525d`;
    assert.deepEqual([got.status, got.json().message], [400, message]);
  }
  const most = { body: { id: "acme", for: "36525d" } };
  assert.equal((await house.ask("POST", "/api/bans", most)).status, 201);
  Object.assign(house.config, { bans: undefined });
  const off = await house.ask("POST", "/api/bans", most);
  assert.deepEqual([off.status, off.json().code], [409, "conflict"], off.text);
});

it("a reason that cannot be kept is wrong usage of a ban as of a suspension, in the same words", async () => {
  await using house = await openAdminHouse();
  assert.equal((await house.ask("POST", "/api/keys", { body: FREE })).status, 201);
  const reason = "two\nlines";
  const banned = await house.ask("POST", "/api/bans", { body: { id: "acme", for: "1h", reason } });
  const suspended = await house.ask("POST", "/api/accounts/acme/suspend", { body: { reason } });
  assert.deepEqual([banned.status, banned.json().code], [400, "bad_request"], banned.text);
  assert.deepEqual(banned.json(), suspended.json());
});

it("a ban by hand is of the environment of its account", async () => {
  await using house = await openAdminHouse();
  const staging = { ...FREE, environment: "staging" };
  assert.equal((await house.ask("POST", "/api/keys", { body: staging })).status, 201);
  const made = await house.ask("POST", "/api/bans", { body: { id: "acme", for: "1h" } });
  assert.deepEqual([made.status, made.json().environment], [201, "staging"]);
  const [ban] = (await house.ask("GET", "/api/bans")).json<{ environment: string }[]>();
  assert.equal(ban?.environment, "staging");
  const shown = await house.ask("GET", "/api/usage/acme");
  assert.notEqual(shown.json().ban, null, "it holds there");
});

it("a revoked key stays revoked, whatever a change of its record says, and may be revoked earlier", async () => {
  await using house = await openAdminHouse();
  const made = await house.ask("POST", "/api/keys", { body: FREE });
  const { id } = made.json<{ id: string }>();
  await house.ask("POST", `/api/keys/${id}/revoke`, { body: {} });
  const recordOf = () => findById(house.keys.records().keys, id) as KeyRecord;
  const patch = (after: KeyRecord) => {
    const change = patchOf("key", recordOf(), after);
    return house.ask("PATCH", "/api/records", { body: { changes: [change] } });
  };
  const { revokedMs = 0, ...working } = recordOf();
  for (const wrong of [working, { ...working, revokedMs: revokedMs + 1 }]) {
    const got = await patch(wrong);
    assert.deepEqual([got.status, recordOf().revokedMs], [400, revokedMs], got.text);
    assert.match(got.text, /as it is revoked: it stays revoked/);
  }
  for (const right of [
    { ...recordOf(), name: "web" },
    { ...working, revokedMs: revokedMs - 1 },
  ]) {
    const got = await patch(right);
    assert.deepEqual([got.status, recordOf()], [200, right], got.text);
  }
});

/** The change of one record as a command elsewhere sends it; without `before` the record is new. */
function patchOf(
  record: "key" | "account",
  before: KeyRecord | AccountRecord | undefined,
  after: KeyRecord | AccountRecord,
) {
  const encode = (one: KeyRecord | AccountRecord) => {
    return "digest" in one ? encodeKey(one) : encodeAccount(one);
  };
  return { record, before: before === undefined ? null : encode(before), after: encode(after) };
}

it("a change of records that would take a key out of its account, or out of the environment of that, is refused with its number", async () => {
  await using house = await openAdminHouse();
  const made = await house.ask("POST", "/api/keys", { body: FREE });
  const { id } = made.json<{ id: string }>();
  const staging = { environment: "staging" };
  await house.ask("POST", "/api/keys", { body: { ...FREE, ...staging, account: "abroad" } });
  await house.ask("POST", "/api/keys", { body: { ...FREE, account: "other" } });
  const before = house.keys.records();
  const key = findById(before.keys, id) as KeyRecord;
  const [acme, abroad] = ["acme", "abroad"].map((name) => findById(before.accounts, name));
  assert.ok(acme !== undefined && abroad !== undefined);
  const fresh = { ...key, id: "k_new", digest: "0".repeat(64) };
  const isElsewhere = "account abroad lives in staging, not in production";
  const stays = `the environment of key ${id} never changes`;
  for (const [wrong, why] of [
    [patchOf("key", key, { ...key, account: "other" }), `the account of key ${id} never changes`],
    [patchOf("key", undefined, { ...fresh, account: "abroad" }), isElsewhere],
    [patchOf("key", key, { ...key, ...staging }), stays],
    [patchOf("key", key, { ...key, ...staging, account: "abroad" }), stays],
    [
      patchOf("key", key, { ...key, digest: fresh.digest }),
      `the digest of key ${id} never changes`,
    ],
    [
      patchOf("account", acme, { ...acme, ...staging }),
      "the environment of account acme never changes",
    ],
  ] as const) {
    const changes = [patchOf("account", abroad, { ...abroad, plan: "pro" }), wrong];
    const got = await house.ask("PATCH", "/api/records", { body: { changes } });
    assert.deepEqual([got.status, got.json().message], [400, `changes.1: ${why}`]);
    assert.equal(house.keys.records(), before, "all or none");
  }
  const changes = [
    patchOf("key", undefined, { ...fresh, account: "new", ...staging }),
    patchOf("account", undefined, { ...acme, id: "new", ...staging }),
  ];
  const got = await house.ask("PATCH", "/api/records", { body: { changes } });
  assert.deepEqual([got.status, got.json()], [200, { changed: 2 }], got.text);
});

it("a change of records that gives a key an account that is not there, or the digest of another, is refused as such, and not as if the store were away", async () => {
  await using house = await openAdminHouse();
  const { id } = (await house.ask("POST", "/api/keys", { body: FREE })).json<{ id: string }>();
  const key = findById(house.keys.records().keys, id) as KeyRecord;
  const fresh = { ...key, id: "k_2", account: "ghost", digest: "0".repeat(64) };
  const ghost = [400, "bad_request", "changes.0: there is no account ghost"];
  // A command reads the records again after a conflict, and finds the key.
  const taken = [409, "conflict", "Cannot change the records: others have changed them since"];
  for (const [change, refusal] of [
    [patchOf("key", undefined, fresh), ghost],
    [patchOf("key", undefined, { ...key, id: "k_2" }), taken],
  ] as const) {
    const got = await house.ask("PATCH", "/api/records", { body: { changes: [change] } });
    assert.deepEqual([got.status, got.json().code, got.json().message], refusal);
  }
  assert.deepEqual([house.errors, house.keys.records().keys], [[], [key]]);
});

it("a key that is outside the environment of its account already can be revoked by a change of records", async () => {
  await using house = await openAdminHouse();
  const { id } = (await house.ask("POST", "/api/keys", { body: FREE })).json<{ id: string }>();
  await house.keys.change(({ keys, accounts }) => {
    const moved = accounts.map((account) => ({ ...account, environment: "staging" }));
    return { records: { keys, accounts: moved }, result: undefined };
  });
  const key = findById(house.keys.records().keys, id) as KeyRecord;
  const changes = [patchOf("key", key, { ...key, revokedMs: NOON_MS })];
  const got = await house.ask("PATCH", "/api/records", { body: { changes } });
  assert.deepEqual([got.status, got.json()], [200, { changed: 1 }], got.text);
});
