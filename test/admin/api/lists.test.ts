import assert from "node:assert/strict";
import { describe, it, onTestFinished, vi } from "vitest";
import { listAccounts, showAccount } from "../../../src/admin/api/accounts.ts";
import type { ApiRequest } from "../../../src/admin/api/api-request.ts";
import { listDeprecations } from "../../../src/admin/api/diagnostics.ts";
import { pageResponse, rankedId } from "../../../src/admin/api/pagination.ts";
import { exportKeys } from "../../../src/admin/api/records.ts";
import { recordLines } from "../../../src/stores/keys/file/export-records.ts";
import { recordsFrom } from "../../support/records.ts";
import { type AdminHouse, openAdminHouse } from "../admin-house.ts";

const FREE = { environment: "production", plan: "free" };

type Named = { readonly account: string };

async function issue(house: AdminHouse, wanted: Readonly<Record<string, unknown>>): Promise<void> {
  const got = await house.ask("POST", "/api/keys", { body: { ...FREE, ...wanted } });
  assert.equal(got.status, 201, got.text);
}

/** The accounts of a list by its links, page after page, and what each page said of the number of all. */
async function followed(
  house: AdminHouse,
  path: string,
  afterPage: (last: string) => Promise<unknown> = async () => undefined,
) {
  const found: string[] = [];
  const totals = new Set<string>();
  for (let next: string | undefined = path; next !== undefined; ) {
    const got: Awaited<ReturnType<AdminHouse["ask"]>> = await house.ask("GET", next);
    assert.equal(got.status, 200, got.text);
    found.push(...got.json<Named[]>().map(({ account }) => account));
    totals.add(String(got.fields["x-total-count"]));
    await afterPage(found.at(-1) ?? "");
    next = /^<([^>]*)>; rel="next"$/.exec(String(got.fields.link))?.[1];
  }
  return { found, totals: [...totals] };
}

describe("a search for accounts", () => {
  it("finds those with all words, in ids, names of keys, plan, state and metadata", async () => {
    await using house = await openAdminHouse();
    await issue(house, { account: "shop-1", name: "Nadia's shop", meta: { tenant: "forty-two" } });
    await issue(house, { account: "shop-2", plan: "pro", name: "GRÜN & Co" });
    await issue(house, { account: "other", environment: "staging", name: "web" });
    await issue(house, { account: "other", environment: "staging", name: "nightly jobs" });
    await house.ask("POST", "/api/accounts/other/suspend", { body: {} });
    const all = ["shop-1", "shop-2", "other"];
    for (const [q, expected] of [
      ["", all],
      [" ", all],
      ["shop", ["shop-1", "shop-2"]],
      ["SHOP nadia", ["shop-1"]],
      ["grün", ["shop-2"]],
      ["tenant", ["shop-1"]],
      ["forty", ["shop-1"]],
      ["staging web", ["other"]],
      ["web jobs", ["other"]],
      ["suspended", ["other"]],
      ["active grün", ["shop-2"]],
      ["shop nobody", []],
    ] as const) {
      const { found, totals } = await followed(house, `/api/accounts?q=${encodeURIComponent(q)}`);
      assert.deepEqual(found, expected, q);
      assert.deepEqual(totals, [String(expected.length)]);
    }
    for (const [query, expected] of [
      ["q=shop&plan=pro", ["shop-2"]],
      ["q=shop&env=staging", []],
      ["q=shop?", []],
      ["q=o&env=staging", ["other"]],
    ] as const) {
      assert.deepEqual((await followed(house, `/api/accounts?${query}`)).found, expected, query);
    }
    const keys = (await house.ask("GET", "/api/keys?account=other")).json<{ id: string }[]>();
    assert.equal(keys.length, 2);
    const byKey = await followed(house, `/api/accounts?q=${keys[0]?.id}`);
    assert.deepEqual(byKey.found, ["other"]);
  });

  it("knows a suspension that has ended by itself as none", async () => {
    await using house = await openAdminHouse();
    await issue(house, { account: "late" });
    await house.ask("POST", "/api/accounts/late/suspend", { body: { for: "1h" } });
    const found = async (q: string) => (await followed(house, `/api/accounts?q=${q}`)).found;
    assert.deepEqual([await found("suspended"), await found("active")], [["late"], []]);
    house.clock.nowMs += 3_600_000;
    assert.deepEqual([await found("suspended"), await found("active")], [[], ["late"]]);
    const resume = () => house.ask("POST", "/api/accounts/late/resume", { body: {} });
    // It may last by the clock of another machine, so that it can still be lifted.
    assert.deepEqual([(await resume()).status, (await resume()).status], [200, 409]);
    const [shown] = (await house.ask("GET", "/api/accounts")).json<{ suspended: unknown }[]>();
    assert.equal(shown?.suspended, null);
  });

  it("knows no account that is not there, to suspend or to resume it", async () => {
    await using house = await openAdminHouse();
    for (const what of ["suspend", "resume"]) {
      const got = await house.ask("POST", `/api/accounts/nobody/${what}`, { body: {} });
      assert.deepEqual([got.status, got.json().code], [404, "unknown_id"], what);
    }
  });

  it("refuses what is too long, an order that is none, and no number where one is asked for", async () => {
    await using house = await openAdminHouse();
    const long = (characters: number) => `/api/accounts?q=${"x".repeat(characters)}`;
    assert.equal((await house.ask("GET", long(200))).status, 200);
    const words = (count: number) =>
      `/api/accounts?q=${Array.from({ length: count }, (_, i) => `w${i}`).join("+")}`;
    assert.equal((await house.ask("GET", `${words(16)}+W0+w15`)).status, 200);
    for (const [path, expected] of [
      [words(17), "q has at most 16 different words"],
      [long(201), "q has at most 200 characters"],
      ["/api/accounts?order=oldest", "order must be newest"],
    ] as const) {
      const got = await house.ask("GET", path);
      assert.deepEqual([got.status, got.json().message], [400, expected]);
    }
    assert.equal((await house.ask("GET", "/api/accounts?limit=10000")).status, 200);
    for (const limit of ["0", "10001", "", "1e3", "-1"]) {
      const got = await house.ask("GET", `/api/accounts?limit=${limit}`);
      const { message } = got.json<{ message: string }>();
      assert.deepEqual(
        [got.status, message],
        [400, "limit must be a whole number from 1 to 10000"],
        limit,
      );
    }
    for (const [query, expected] of [
      ["over=8e1", "over must be a number of percent, such as 80"],
      ["over=", "over must be a number of percent, such as 80"],
      ["over=80%25", "over must be a number of percent, such as 80"],
      ["over=80.", "over must be a number of percent, such as 80"],
      ["top=0", "top must be a number of accounts, such as 20"],
      ["top=1e2", "top must be a number of accounts, such as 20"],
    ] as const) {
      const got = await house.ask("GET", `/api/usage?${query}`);
      const { code, message } = got.json<{ code: string; message: string }>();
      assert.deepEqual([got.status, code, message], [400, "bad_request", expected], query);
    }
  });

  it("are changed together by their plan, all or none, and refused in words", async () => {
    await using house = await openAdminHouse();
    for (const account of ["a-1", "a-2"]) await issue(house, { account });
    await issue(house, { account: "a-3", plan: "pro" });
    const change = (plan: string, body: object) => {
      return house.ask("PATCH", `/api/accounts?plan=${plan}`, { body });
    };
    const refused = await change("free", { plan: "none" });
    assert.deepEqual([refused.status, refused.json().code], [400, "bad_request"], refused.text);
    const message = "Name the plan: PATCH /api/accounts?plan=PLAN";
    for (const body of [{ plan: "pro" }, { wrong: 1 }]) {
      const unnamed = await house.ask("PATCH", "/api/accounts", { body });
      assert.deepEqual([unnamed.status, unnamed.json().message], [400, message]);
    }
    const changed = await change("free", { plan: "pro" });
    assert.deepEqual([changed.status, changed.json()], [200, { changed: 2 }]);
    const { found } = await followed(house, "/api/accounts?q=pro");
    assert.deepEqual(found, ["a-1", "a-2", "a-3"]);
    assert.equal((await change("pro", { anchor: 15 })).status, 200);
    const shown = (await house.ask("GET", "/api/accounts")).json<{ anchorFrom: unknown }[]>();
    const next = Date.UTC(2026, 5, 1) / 1_000;
    assert.deepEqual(
      shown.map(({ anchorFrom }) => anchorFrom),
      [next, next, next],
    );
  });
});

describe("pages of a list", () => {
  it("have 1,000 entries unless told, and the last one, though it is full, has no way to a next one", () => {
    const all = Array.from({ length: 2_000 }, (_, i) => ({ id: `a-${i}` }));
    const pageOf = (text: string) => {
      const query = new URLSearchParams(text);
      const { body, fields } = pageResponse(all, { path: "/api/x", query }, (page) => page, all);
      return [JSON.parse(String(body)).length, fields.join(" ")];
    };
    const next = 'X-Total-Count 2000 Link </api/x?after=a-999>; rel="next"';
    assert.deepEqual(pageOf(""), [1_000, next]);
    assert.deepEqual(pageOf("after=a-999"), [1_000, "X-Total-Count 2000"]);
  });

  it("end where every entry has left the list that stood behind their last one", () => {
    const [all, query] = [[{ id: rankedId(1, "a-1") }], new URLSearchParams("after=2 a-2")];
    const { body, fields } = pageResponse(all, { path: "/api/x", query }, (page) => page);
    assert.deepEqual([body, fields.join(" ")], ["[]", "X-Total-Count 1"]);
  });

  it("have every other entry once when their last one leaves the list, or moves to its front", async () => {
    await using house = await openAdminHouse();
    const made = ["a-1", "a-2", "a-3", "a-4", "a-5", "a-6"];
    for (const [i, account] of made.entries()) {
      await issue(house, { account });
      await house.ask("POST", "/api/bans", { body: { id: account, for: `${9 - i}h` } });
    }
    const pro = { body: { plan: "pro" } };
    const onPro = (id: string) => house.ask("PATCH", `/api/accounts/${id}`, pro);
    const free = { body: { plan: "free" } };
    const onFree = (id: string) => house.ask("PATCH", `/api/accounts/${id}`, free);
    const lift = (id: string) => house.ask("DELETE", `/api/bans/${id}`, { body: {} });
    const longer = (id: string) => house.ask("POST", "/api/bans", { body: { id, for: "12h" } });
    const dropPro = async (id: string) => {
      await onPro(id);
      (house.config.plans as Map<string, unknown>).delete("pro");
    };
    for (const [path, change, expected] of [
      ["/api/accounts?limit=2&plan=free", onPro, made],
      ["/api/accounts?limit=2&plan=pro&order=newest", onFree, ["a-6", "a-4", "a-2"]],
      ["/api/bans?limit=2", longer, made],
      ["/api/bans?limit=2", lift, ["a-2", "a-4", "a-6", "a-1", "a-3", "a-5"]],
      ["/api/counts?limit=2", dropPro, made.slice(0, 5)],
    ] as const) {
      const { found } = await followed(house, path, change);
      assert.deepEqual(found, expected, path);
    }
  });

  it("have both bans of an address that two environments banned until one instant", async () => {
    await using house = await openAdminHouse();
    const ban = { window: "minute", keptMs: 1_000, plan: "free", reason: "", lengthMs: 60_000 };
    for (const environment of ["production", "staging"]) {
      await house.quotas.ban({ environment, account: "addr:192.0.2.1" }, ban as never);
    }
    const { found, totals } = await followed(house, "/api/bans?limit=1");
    assert.deepEqual([found.length, totals], [2, ["2"]]);
  });

  it("have each deprecated method of a path once", async () => {
    const methods = ["GET", "PUT", "DELETE"];
    const operations = methods.map((method) => {
      return { method, template: "/old", lifecycle: { deprecated: true } };
    });
    const environments = [{ name: "production", routes: { operations }, services: [] }];
    const deps = {
      config: () => ({ environments }),
      diagnostics: { flushToStore: async () => {} },
      quotas: { activity: { calls: async () => [] } },
      now: () => 0,
    };
    const found: string[] = [];
    for (let next = "limit=1"; next !== "" && found.length <= methods.length; ) {
      const call = { deps, query: new URLSearchParams(next) };
      const { body, fields } = await listDeprecations(call as unknown as ApiRequest);
      found.push(...JSON.parse(String(body)).map(({ method }: { method: string }) => method));
      next = /<[^?]*\?(.*)>; rel="next"/.exec(fields.join())?.[1] ?? "";
    }
    assert.deepEqual(found, methods);
  });

  it("have as many gateways as were asked for, each once and in order", async () => {
    await using house = await openAdminHouse();
    const names = ["g-1", "g-2", "g-3"];
    const told = { version: "1", config: "c", started: 1, requestsPerSecond: 0 };
    for (const name of names.toReversed()) {
      const status = { ...told, name, refusalsPerSecond: 0, state: "ready" };
      await house.quotas.gateways.announce(name, JSON.stringify(status));
    }
    for (const [path, expected] of [
      ["/api/gateways?limit=2", names.slice(0, 2)],
      ["/api/gateways?limit=2&after=0+g-2", names.slice(2)],
    ] as const) {
      const got = await house.ask("GET", path);
      assert.deepEqual(
        got.json<{ name: string }[]>().map(({ name }) => name),
        expected,
        path,
      );
      assert.equal(got.fields["x-total-count"], "3");
    }
  });

  it("refuse an `after` that is no place, and do not begin again", async () => {
    await using house = await openAdminHouse();
    const off = await house.ask("GET", "/api/history");
    assert.deepEqual([off.status, off.json().code], [409, "conflict"]);
    Object.assign(house.config, { historyMs: 30 * 86_400_000 });
    await issue(house, { account: "a-1" });
    for (const path of [
      ...["/api/history?after=a-1", "/api/history?after=none+2026-05-01"],
      ...["/api/history?after=a-1+zzz", "/api/history?after=a-1+2026-05-01+x"],
      ...["/api/usage?after=1e3+x", "/api/usage?after=0.10+x"],
      ...["/api/keys?after=k_none", "/api/accounts?order=newest&after=", "/api/counts?after=x"],
      ...[
        "/api/bans?after=a-1",
        "/api/bans?after=x+a-1",
        "/api/usage?after=+",
        "/api/usage?after=0",
        "/api/usage?after=1e999+a-1",
      ],
    ]) {
      const got = await house.ask("GET", path);
      assert.deepEqual([got.status, got.json().code], [400, "bad_request"], path);
      assert.match(got.text, /after must be a place/, path);
    }
  });

  it("have every entry once, in order and in reverse, and say how many there are", async () => {
    await using house = await openAdminHouse();
    const made = ["a-1", "a-2", "a-3", "a-4", "a-5"];
    /** Those that used most come first. */
    const usage = ["a-2", "a-4", "a-1", "a-3", "a-5"];
    const { bans } = house.config;
    const asked = { limits: [{ window: "minute", limit: 3 }], bans } as const;
    for (const [account, requests] of [["a-2", 3] as const, ["a-4", 2] as const]) {
      await house.quotas.charge({ environment: "production", account }, { ...asked, requests });
    }
    for (const account of made) {
      await issue(house, { account });
      const ban = { body: { id: account, for: "1h" } };
      assert.equal((await house.ask("POST", "/api/bans", ban)).status, 201);
    }
    for (const [path, expected] of [
      ["/api/accounts?limit=2", made],
      ["/api/accounts?limit=2&order=newest", made.toReversed()],
      ["/api/accounts?limit=5", made],
      ["/api/accounts?limit=1&q=a-", made],
      ["/api/keys?limit=2", made],
      ["/api/keys?limit=2&order=newest", made.toReversed()],
      ["/api/bans?limit=2", made],
      ["/api/usage?limit=1", usage],
      ["/api/usage?over=66.6", usage.slice(0, 2)],
      ["/api/usage?plan=pro", []],
      ["/api/usage?over=1000", []],
      ["/api/counts?limit=2", made],
      ["/api/usage?limit=1&top=3", usage.slice(0, 3)],
    ] as const) {
      const { found, totals } = await followed(house, path);
      assert.deepEqual(found, expected, path);
      assert.deepEqual(totals, [String(expected.length)], path);
    }
  });
});

it("lists of records are whole, however many turns of the event loop their making takes", async () => {
  let nowMs = 0;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => {
    nowMs += 2;
    return nowMs;
  });
  onTestFinished(() => clock.mockRestore());
  const keys = Array.from({ length: 50 }, (_, i) => {
    return { id: `k-${i}`, account: `a-${i % 40}`, name: `no. ${i}` };
  });
  const records = recordsFrom(keys);
  const asked = (query: string, id = "") => {
    const deps = { keys: { records: () => records }, now: () => 0 };
    return { deps, id, body: {}, query: new URLSearchParams(query) } as unknown as ApiRequest;
  };
  const found = async (q: string) => {
    const { body } = await listAccounts(asked(`q=${q}`));
    return JSON.parse(String(body)).map(({ account }: Named) => account);
  };
  assert.equal((await found("a-")).length, 40);
  assert.deepEqual(await found("no.+49"), ["a-9"]);
  const { body } = await showAccount(asked("", "a-9"));
  assert.deepEqual(JSON.parse(String(body)).keys, ["k-9", "k-49"]);
});

it("an export has every record, of whatever length, in the words in which the commands write it", async () => {
  for (const count of [1, 3_000]) {
    const records = recordsFrom(
      Array.from({ length: count }, (_, i) => ({ id: `k-${i}`, account: "a", name: `Größe ${i}` })),
    );
    const deps = { keys: { records: () => records } };
    const { body } = await exportKeys({ deps } as unknown as ApiRequest);
    const lines = [...recordLines(records)].map((line) => `${line}\n`);
    assert.equal(lines.length, count + 1);
    assert.equal(String(body), lines.join(""));
  }
});
