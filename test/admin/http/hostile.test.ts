import assert from "node:assert/strict";
import { connect } from "node:net";
import { describe, it } from "vitest";
import type { AccessLogEntry } from "../../../src/telemetry/log/access-log-entry.ts";
import { eventually } from "../../support/poll.ts";
import { recordsFrom } from "../../support/records.ts";
import { sendRaw } from "../../support/wire/raw.ts";
import { parseResponses } from "../../support/wire/response.ts";
import { type AdminHouse, openAdminHouse, TOKEN } from "../admin-house.ts";

describe("hostile clients", () => {
  it("get valid HTTP or nothing, 300 random requests long, and the listener lives", async () => {
    await using house = await openAdminHouse();
    const roll = dice(20_261_121);
    for (let round = 0; round < 30; round++) {
      await Promise.all(
        Array.from({ length: 10 }, async () => {
          const bytes = randomRequest(roll);
          const { bytes: got } = await sendRaw(house.port, bytes, {
            halfClose: true,
            timeoutMs: 4_000,
          });
          const head = /^HEAD /.test(bytes) ? ["HEAD"] : [];
          const { problem, responses } = parseResponses(got, { methods: head, closed: true });
          assert.equal(problem, undefined, JSON.stringify([bytes, got.toString("latin1")]));
          for (const { status, body } of responses) {
            assert.notEqual(status, 500, JSON.stringify(bytes));
            if (status >= 400 && body.length > 0) {
              assert.equal(JSON.parse(body.toString()).status, status);
            }
          }
        }),
      );
    }
    assert.equal((await house.ask("GET", "/livez")).status, 200);
    assert.deepEqual(
      house.logged.filter((line) => line.includes("failed")),
      [],
    );
  });

  it("that go away in the middle of anything leave no error behind", async () => {
    await using house = await openAdminHouse();
    const head = `POST /api/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n`;
    const whole = `${head}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"environment":`;
    for (let length = 1; length <= whole.length; length += 3)
      await cutAfter(house, whole.slice(0, length));
    for (let i = 0; i < 20; i++) await cutAfter(house, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert.equal((await house.ask("GET", "/livez")).status, 200);
    assert.deepEqual(house.logged, []);
    assert.equal(house.keys.records().keys.length, 0);
  });

  it("that do not read their answers are cut off", async () => {
    await using house = await openAdminHouse({ limits: { responseTimeoutMs: 2_000 } });
    // Put there without a request: a busy machine takes longer for so many than answers may take.
    const keys = Array.from({ length: 1_000 }, (_, i) => ({ id: `k_${i}`, account: "acme" }));
    await house.keys.change(() => ({ records: recordsFrom(keys), result: undefined }));
    const request = `GET /api/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`;
    const socket = connect(house.port, "127.0.0.1");
    socket.on("error", () => {});
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    socket.pause();
    socket.write(request.repeat(200));
    await eventually(
      async () => {
        socket.write("x");
        return socket.destroyed || socket.errored !== null;
      },
      { withinMs: 60_000, everyMs: 50 },
    );
    socket.destroy();
    await closed;
    await eventually(async () => (await house.ask("GET", "/livez")).status === 200);
  });

  it("pipeline requests and get the answers in order", async () => {
    await using house = await openAdminHouse();
    const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
    const bytes = ["/metrics", "/livez", "/nothing", "/readyz"].map(request).join("");
    const methods = ["GET", "GET", "GET", "GET"];
    const { bytes: got } = await sendRaw(house.port, bytes, { methods });
    const { responses } = parseResponses(got, { methods });
    assert.deepEqual(
      responses.map(({ status }) => status),
      [200, 200, 404, 200],
    );
  });
});

describe("secrets", () => {
  it("appear in no answer, metric or log line but the one that issues a key", async () => {
    await using house = await openAdminHouse();
    const body = { environment: "production", plan: "free", account: "acme" };
    const issued = (await house.ask("POST", "/api/keys", { body })).json<{
      id: string;
      key: string;
    }>();
    const rotated = (await house.ask("POST", `/api/keys/${issued.id}/rotate`)).json<{
      key: string;
    }>();
    const entry: AccessLogEntry = {
      ...{ id: "r", env: "production", account: "acme", key: issued.id, plan: "free" },
      ...{ method: issued.key, route: undefined, path: `/v1/pets?key=${issued.key}`, status: 401 },
      ...{ code: "key_invalid", source: "gateway", decision: "none", charged: 0, forwards: 0 },
      ...{ durationMs: 1, client: "192.0.2.1", why: issued.key },
    };
    house.metrics.request(entry, { storeMs: 0, upstreamMs: undefined });
    const secrets = [TOKEN, issued.key, rotated.key];
    secrets.push(...house.keys.records().keys.map(({ digest }) => digest));

    const asks: Promise<{ text: string; fields: unknown }>[] = [];
    for (const path of ["/", "/livez", "/readyz", "/metrics", "/api/keys", "/api/keys/acme"]) {
      asks.push(house.ask("GET", path), house.ask("GET", path, { token: `${TOKEN}x` }));
    }
    for (const path of ["/api/bans", "/api/usage/acme", "/api/config", `/api/keys/${issued.key}`]) {
      asks.push(house.ask("GET", path), house.ask("POST", path, { token: issued.key }));
    }
    const misplaced = { ...body, name: issued.key, surprise: issued.key, expires: issued.key };
    asks.push(
      house.ask("POST", "/api/keys", { body: misplaced }),
      house.ask("POST", "/api/keys", { body: `{"${issued.key}` }),
      house.ask("POST", `/api/keys/${issued.id}/revoke`),
      house.ask("DELETE", "/api/bans/acme"),
      house.ask("POST", "/api/reload"),
    );
    const texts = (await Promise.all(asks)).map(
      ({ text, fields }) => text + JSON.stringify(fields),
    );
    for (const text of [...texts, ...house.logged]) {
      for (const secret of secrets) assert.equal(text.includes(secret), false, text);
    }
  });
});

/** Connects, writes, and resets the connection as soon as that is out. */
function cutAfter(house: AdminHouse, bytes: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(house.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.once("close", () => resolve());
    socket.write(bytes, () => socket.resetAndDestroy());
  });
}

/** A small generator with a seed (mulberry32): the same requests in every run. */
function dice(seed: number): (max: number) => number {
  let state = seed;
  return (max) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % max;
  };
}

const METHODS = ["GET", "POST", "HEAD", "DELETE", "PUT", "BREW", "CONNECT", "OPTIONS", "get", ""];
const PATHS = [
  "/",
  "/livez",
  "/metrics",
  "/api/keys",
  "/api/keys/x/rotate",
  "/api/bans/x",
  "/api",
  "*",
];
PATHS.push(
  "//api/keys",
  "/api/../metrics",
  "/%2e",
  "/api/keys/%00",
  "http://a/livez",
  "",
  "\u00ff",
  "/ x",
);
const FIELDS = [
  "Host: localhost",
  "Host: localhost",
  "Host: evil",
  `Authorization: Bearer ${TOKEN}`,
];
FIELDS.push("Content-Type: application/json", "Content-Length: 2", "Content-Length: 2000000");
FIELDS.push(
  "Transfer-Encoding: chunked",
  "Transfer-Encoding: gzip",
  "Expect: 100-continue",
  "Expect: x",
);
FIELDS.push(
  "Upgrade: websocket\r\nConnection: upgrade",
  "Origin: null",
  "Connection: close",
  "X: \u0000",
);
FIELDS.push(" folded", "no colon", "Content-Length: -1", `Long: ${"y".repeat(9_000)}`, "Host:");
const BODIES = [
  "",
  "{}",
  "[]",
  "2\r\n{}\r\n0\r\n\r\n",
  "zz\r\n",
  "\u0000\u0001",
  '{"plan":"free"}',
];

function randomRequest(roll: (max: number) => number): string {
  const pick = (from: readonly string[]) => from[roll(from.length)] ?? "";
  const version = roll(8) === 0 ? pick(["HTTP/1.0", "HTTP/2.0", "HTTP/9", ""]) : "HTTP/1.1";
  const fields = Array.from({ length: roll(6) }, () => pick(FIELDS));
  const lines = [`${pick(METHODS)} ${pick(PATHS)} ${version}`, "Host: localhost", ...fields];
  if (roll(2) === 0) lines.push(`Authorization: Bearer ${TOKEN}`, "Content-Type: application/json");
  const bytes = `${lines.join("\r\n")}\r\n\r\n${pick(BODIES)}`;
  if (roll(5) > 0) return bytes;
  const at = roll(bytes.length);
  return bytes.slice(0, at) + String.fromCharCode(roll(256)) + bytes.slice(at + roll(3));
}
