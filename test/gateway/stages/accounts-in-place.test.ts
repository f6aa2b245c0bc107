import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import { digestKey } from "../../../src/core/keys/key.ts";
import { type IssuedKey, startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";

/** A noon that does not move: no minute ends between two requests. */
const NOON = Date.UTC(2026, 5, 1, 12);
const FOREIGN = `sk_${"a1".repeat(12)}`;
const SANCTUM = `17|${"a1".repeat(20)}`;

let house: TestGateway;
beforeAll(async () => {
  house = await startTestGateway({
    now: () => NOON,
    config: {
      keyHeaders: ["authorization", "x-api-key"],
      foreignKeys: [
        { prefix: "sk_", min: 22 },
        { prefix: "17|", min: 40 },
      ],
    },
    keys: {
      [FOREIGN]: { id: "foreign", digest: digestKey(FOREIGN) },
      [SANCTUM]: { id: "sanctum", digest: digestKey(SANCTUM) },
    },
  });
});
afterAll(() => house[Symbol.asyncDispose]());

async function patch(path: string, body: unknown, method = "PATCH"): Promise<Response> {
  return house.admin(path, { method, body: JSON.stringify(body) });
}

const limitOf = (response: Response) => response.headers.get("X-RateLimit-Limit");

describe("An account", () => {
  it("changes plan and limits in place for all of its keys, with its counts kept", async () => {
    const first = await house.issue();
    const second = await house.issue({ account: first.account });
    assert.equal((await house.ask(first.key)).headers.get("X-RateLimit-Remaining"), "59");
    assert.equal((await patch(`/api/accounts/${first.account}`, { plan: "pro" })).status, 200);
    const after = await house.ask(second.key);
    assert.deepEqual([limitOf(after), after.headers.get("X-RateLimit-Remaining")], ["300", "298"]);
    const own = { limits: { minute: 7 } };
    assert.equal((await patch(`/api/accounts/${second.id}`, own)).status, 200);
    assert.deepEqual(
      [limitOf(await house.ask(first.key)), limitOf(await house.ask(second.key))],
      ["7", "7"],
    );
    await house.law();
  });

  it("lets a request pass at once when its full window is raised or set to 0", async () => {
    const { key, account } = await house.issue({ limits: { minute: 1 } });
    assert.equal((await house.ask(key)).status, 200);
    assert.equal((await house.ask(key)).status, 429);
    await patch(`/api/accounts/${account}`, { limits: { minute: 2 } });
    assert.equal((await house.ask(key)).status, 200);
    assert.equal((await house.ask(key)).status, 429);
    const reset = await patch(`/api/accounts/${account}/reset`, { windows: ["minute"] }, "POST");
    assert.deepEqual(await reset.json(), {
      account,
      environment: "production",
      windows: [{ window: "minute", units: 2 }],
    });
    assert.equal((await house.ask(key)).status, 200);
    const wrong = await patch(`/api/accounts/${account}/reset`, { windows: ["fortnight"] }, "POST");
    assert.equal(wrong.status, 400);
  });

  it("may have fewer requests under way at once than its plan allows", async () => {
    const { key, account } = await house.issue({ limits: { concurrent: 1 } });
    const slow = house.backend.seen.length;
    const answers = await Promise.all(Array.from({ length: 8 }, () => house.ask(key)));
    const codes = answers.map(({ status }) => status);
    assert.ok(codes.includes(429) && codes.includes(200), `${codes}`);
    await Promise.all(answers.map((answer) => answer.arrayBuffer()));
    assert.equal(house.backend.seen.length - slow, codes.filter((code) => code === 200).length);
    await patch(`/api/accounts/${account}`, { dropLimits: true });
    const free = await Promise.all(Array.from({ length: 8 }, () => house.ask(key)));
    assert.deepEqual(new Set(free.map(({ status }) => status)), new Set([200]));
  });

  it("is refused with 403 and uncharged while it is suspended, and served again after", async () => {
    const { key, account } = await house.issue();
    await house.ask(key);
    const how = { for: "1h", reason: "unpaid" };
    const suspended = await patch(`/api/accounts/${account}/suspend`, how, "POST");
    assert.equal(((await suspended.json()) as { state: string }).state, "suspended");
    const seen = house.backend.seen.length;
    const refused = await house.ask(key);
    assert.equal(refused.status, 403);
    assert.equal(((await refused.json()) as { code: string }).code, "account_suspended");
    assert.equal(limitOf(refused), "60");
    assert.equal(refused.headers.get("X-RateLimit-Remaining"), "59", "what it has used is known");
    assert.equal(house.backend.seen.length, seen);
    await eventually(() => {
      const entry = house.lines.findLast(({ code }) => code === "account_suspended");
      assert.deepEqual([entry?.account, entry?.charged], [account, 0]);
    });
    assert.equal((await patch(`/api/accounts/${account}/resume`, {}, "POST")).status, 200);
    assert.equal((await house.ask(key)).headers.get("X-RateLimit-Remaining"), "58");
    await house.law();
  });

  it("tells the backend its metadata, the key and its scopes, and no client can say them", async () => {
    const meta = { tenant: "42", "cost-center": "a=b" };
    const { key, id, account } = await house.issue({ meta, scopes: ["orders:read", "beta"] });
    const spoofed = {
      "X-Consumer-Key-Id": "k_root",
      "X-Consumer-Scopes": "admin",
      "X-Consumer-Meta-Tenant": "1",
      "X-Consumer-Anything": "x",
      "x-consumer-": "x",
    };
    await house.ask(key, "/v1/pets", { headers: spoofed });
    const { rawHeaders } = house.backend.seen.at(-1) as { rawHeaders: readonly string[] };
    const ours = rawHeaders.flatMap((name, i) =>
      i % 2 === 0 && /^x-consumer/i.test(name) ? [[name, rawHeaders[i + 1]]] : [],
    );
    assert.deepEqual(ours, [
      ["X-Consumer-Id", account],
      ["X-Consumer-Plan", "free"],
      ["X-Consumer-Key-Id", id],
      ["X-Consumer-Scopes", "orders:read beta"],
      ["X-Consumer-Meta-Tenant", "42"],
      ["X-Consumer-Meta-Cost-Center", "a=b"],
    ]);
    await patch(`/api/accounts/${account}`, { meta: { tenant: "", region: "eu" } });
    await house.ask(key);
    const later = house.backend.seen.at(-1) as { rawHeaders: readonly string[] };
    assert.ok(!later.rawHeaders.includes("X-Consumer-Meta-Tenant"));
    assert.ok(later.rawHeaders.includes("X-Consumer-Meta-Region"));
  });
});

describe("A key", () => {
  const problem = async (response: Response) => ((await response.json()) as { code: string }).code;

  it("works only from its networks, and the log says why not", async () => {
    const { key, id } = await house.issue({ from: ["192.0.2.0/24"] });
    const refused = await house.ask(key);
    assert.deepEqual([refused.status, await problem(refused)], [401, "key_invalid"]);
    await eventually(() => assert.match(house.lines.at(-1)?.why ?? "", /^not from 127\.0\.0\.1$/));
    await patch(`/api/keys/${id}`, { from: ["127.0.0.0/8"] });
    assert.equal((await house.ask(key)).status, 200);
    await patch(`/api/keys/${id}`, { from: [] });
    assert.equal((await house.ask(key)).status, 200);
  });

  it("may stand in any field that the configuration names, and goes on in none", async () => {
    const { key } = await house.issue();
    const bare = (headers: Record<string, string>) => fetch(`${house.url}/v1/pets`, { headers });
    assert.equal((await bare({ "X-Api-Key": key })).status, 200);
    const { rawHeaders } = house.backend.seen.at(-1) as { rawHeaders: readonly string[] };
    assert.doesNotMatch(rawHeaders.join("\n"), new RegExp(`${key}|api-key`, "i"));
    const both = await bare({ "X-Api-Key": key, Authorization: `Bearer ${key}` });
    assert.deepEqual([both.status, await problem(both)], [401, "key_invalid"]);
    assert.equal((await bare({ "X-Api-Key": "" })).status, 401);
  });

  it("of another shape works, and is masked in the log", async () => {
    assert.equal((await house.ask(FOREIGN)).status, 200);
    assert.equal((await house.ask(SANCTUM)).status, 200);
    const unknown = `sk_${"b".repeat(30)}`;
    assert.equal((await house.ask(unknown)).status, 401);
    await house.ask(FOREIGN, `/v1/pets/${FOREIGN}`);
    await eventually(() => assert.match(house.lines.at(-1)?.path ?? "", /^\/v1\/pets\/sk_…$/));
    await house.ask(FOREIGN, `/v1/pets/${SANCTUM.replace("|", "%7C")}`);
    await eventually(() => assert.match(house.lines.at(-1)?.path ?? "", /^\/v1\/pets\/17\|…$/));
  });
});

describe("All accounts on a plan", () => {
  it("move together, so that the plan can go by a reload", async () => {
    const old: IssuedKey[] = [];
    for (let i = 0; i < 3; i++) old.push(await house.issue({ plan: "business" }));
    const judged = await patch("/api/accounts?plan=business", { plan: "enterprise" });
    assert.equal(judged.status, 400);
    assert.equal(limitOf(await house.ask(old[0]?.key ?? "")), "1000");
    const moved = await patch("/api/accounts?plan=business", { plan: "pro" });
    assert.deepEqual(await moved.json(), { changed: 3 });
    for (const { key } of old) assert.equal(limitOf(await house.ask(key)), "300");
    assert.equal((await patch("/api/accounts?plan=gold", { plan: "pro" })).status, 400);
    assert.equal((await patch("/api/accounts", { plan: "pro" })).status, 400);
  });
});
