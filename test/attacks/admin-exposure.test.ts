import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { loadConfig } from "../../src/config/load/load.ts";
import { KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { lastSeen, lawHolds, openAttacked } from "./attacked.ts";

/** Both without a description, so that whatever is under /v1 passes. */
const house = await openAttacked({ environment: { api: null } });
afterAll(() => house[Symbol.asyncDispose]());

const PATHS = [
  ...["/livez", "/readyz", "/metrics", "/", "/healthz", "/api/keys", "/api/keys/vectors/revoke"],
  ...[
    "/api/bans",
    "/api/bans/vectors",
    "/api/usage/vectors",
    "/api/config",
    "/api/reload",
    "/favicon.ico",
  ],
];

test("no path of the admin listener answers on a public one: 401 without a key, 404 with one", async () => {
  const before = house.backend.seen.length;
  for (const path of PATHS) {
    for (const method of ["GET", "POST", "DELETE", "HEAD"]) {
      const wanted = { method, path, ...(method === "POST" ? { body: "{}" } : {}) };
      if (method === "HEAD") continue;
      assert.equal((await sendRequest(house.port, wanted)).status, 401, `${method} ${path}`);
      const keyed = await sendRequest(house.port, { ...wanted, key: KEY });
      assert.ok([404, 400].includes(keyed.status), `${method} ${path}: ${keyed.status}`);
      assert.ok(!/tollgate_|"checks"|digest/.test(keyed.body.toString()));
    }
  }
  assert.equal(house.backend.seen.length, before);
});

test("under /v1 they are the backend's, if it has them", async () => {
  assert.equal((await sendRequest(house.port, { key: KEY, path: "/v1/metrics" })).status, 200);
  assert.equal(lastSeen(house).target, "/v1/metrics");
});

test("off loopback it wants a token of at least 32 characters, or it is a mistake", async () => {
  const text = (listen: string, token: string) => house.rewrite({ admin: { listen, token } });
  for (const [listen, token, isFine] of [
    ["0.0.0.0:9090", "", false],
    ["[::]:9090", "", false],
    ["0.0.0.0:9090", "a".repeat(31), false],
    ["0.0.0.0:9090", "a".repeat(32), true],
    ["127.0.0.1:9090", "", true],
    ["[::1]:9090", "", true],
  ] as const) {
    await text(listen, token);
    const loaded = await loadConfig(house.file, {});
    assert.equal(loaded.ok, isFine, `${listen} with ${token.length} characters`);
  }
});

test("a page of another site cannot speak to it: foreign Host and Origin are refused", async () => {
  const port = Number(new URL(house.adminUrl).port);
  const path = "/api/keys";
  for (const host of [
    "evil.test",
    `evil.test:${port}`,
    "127.0.0.1.evil.test",
    "localhost.evil.test",
  ]) {
    const answer = await sendRequest(port, { path, host });
    assert.ok(answer.status >= 400 && answer.status < 500, `${host}: ${answer.status}`);
  }
  const own = `127.0.0.1:${port}`;
  const fields = [["Origin", "http://evil.test"]] as const;
  assert.equal((await sendRequest(port, { path, host: own, fields })).status, 403);
  assert.equal((await sendRequest(port, { path, host: own })).status, 200);
});

test("the law holds after all of it", () => lawHolds(house));
