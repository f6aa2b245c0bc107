import assert from "node:assert/strict";
import { it } from "vitest";
import { refuseKeyIn } from "../../../src/admin/api/refuse-request.ts";
import { startTestGateway } from "../../support/gateway/house.ts";

const FOREIGN = "sk_AbCdEfGhIjKlMnOpQrStUvWx";

it("a whole key in a text that would be kept, shown or logged is refused, and not repeated", async () => {
  const config = { foreignKeys: [{ prefix: "sk_", min: 22 }] };
  await using house = await startTestGateway({ config });
  const { key, account, id } = await house.issue();
  const secret = key.slice(10);
  const free = { environment: "production", plan: "free" };
  const asks: readonly (readonly [method: string, path: string, body: object, member: string])[] = [
    ["POST", "/api/bans", { id: account, for: "1m", reason: `leaked: ${key}` }, "reason"],
    ["POST", "/api/bans", { id: key, for: "1m" }, "id"],
    ["POST", `/api/accounts/${account}/suspend`, { reason: `found ${key} in a chat` }, "reason"],
    ["POST", `/api/accounts/${account}/suspend`, { reason: FOREIGN }, "reason"],
    ["PATCH", `/api/accounts/${account}`, { meta: { was: key } }, "meta"],
    ["PATCH", `/api/keys/${id}`, { name: key }, "name"],
    ["POST", "/api/keys", { ...free, name: `old ${FOREIGN}` }, "name"],
    ["POST", "/api/keys", { ...free, account: key }, "account"],
  ];
  for (const [method, path, body, member] of asks) {
    const answer = await house.admin(path, { method, body: JSON.stringify(body) });
    const text = await answer.text();
    assert.equal(answer.status, 400, `${method} ${path}: ${text}`);
    assert.match(text, new RegExp(`\\\\"${member}\\\\" holds a whole key`));
    assert.ok(!text.includes(secret) && !text.includes(FOREIGN), "it is not repeated");
  }
  const kept = await (await house.admin("/api/keys/export")).text();
  assert.ok(!kept.includes(secret) && !kept.includes(FOREIGN), "it is nowhere in the records");
  assert.deepEqual(await (await house.admin("/api/bans")).json(), []);
});

it("a whole key as the name of a member or in a query is refused, and not repeated", async () => {
  await using house = await startTestGateway({
    config: { history: "30d", foreignKeys: [{ prefix: "sk_", min: 22 }] },
  });
  const { key, id } = await house.issue();
  for (const secret of [key, FOREIGN]) {
    const asks: readonly (readonly [method: string, path: string, body?: object])[] = [
      ["POST", "/api/keys", { [secret]: 1 }],
      ["POST", "/api/keys/find", { key, [`x ${secret}`]: 1 }],
      ["PATCH", `/api/keys/${id}`, { name: "x", [secret]: {} }],
      ["PATCH", `/api/accounts?plan=${secret}`, { plan: "pro" }],
      ["GET", `/api/history?days=${secret}`],
      ["GET", `/api/history?month=${secret}`],
      ["GET", `/api/accounts?q=was%20${secret}`],
      ["GET", `/api/keys?${secret}=1`],
    ];
    for (const [method, path, body] of asks) {
      const answer = await house.admin(path, {
        method,
        ...(body && { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      assert.equal(answer.status, 400, `${method} ${path}: ${text}`);
      assert.ok(!text.includes(secret.slice(4)), text);
    }
  }
  assert.equal((await house.admin(`/api/history?account=${id}&days=2`)).status, 200);
});

it("a search, an import and a change of records take keys, since they keep digests alone", async () => {
  await using house = await startTestGateway({
    config: { foreignKeys: [{ prefix: "sk_", min: 22 }] },
  });
  const { key, id } = await house.issue();
  const post = async (path: string, body: object) => {
    return house.admin(path, { method: "POST", body: JSON.stringify(body) });
  };
  const found = await post("/api/keys/find", { key });
  assert.equal(((await found.json()) as { id: string }).id, id);
  assert.equal((await post("/api/keys/find", { key: `${key} ` })).status, 404, "another text");
  const plain = { key, account: "moved", plan: "free", environment: "production" };
  const dry = await post("/api/keys/import", { records: [plain], plain: true, dryRun: true });
  assert.ok(!(await dry.text()).includes("holds a whole key"));
  const records = [{ ...plain, key: FOREIGN }];
  const foreign = await post("/api/keys/import", { records, plain: true });
  assert.equal(((await foreign.json()) as { keys: number }).keys, 1);
  assert.equal(refuseKeyIn({ changes: [key] }, []), undefined);
  assert.equal(refuseKeyIn({ name: key }, [])?.status, 400);
});
