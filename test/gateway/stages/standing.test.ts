import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const NOON = Date.UTC(2026, 5, 1, 12);
const PATH = "/v1/_limits";
const OPTIONS = { environment: { standing: PATH }, now: () => NOON };

describe("standing", () => {
  it("tells the usage of the own account, uncharged, and forwards nothing", async () => {
    await using house = await startTestGateway(OPTIONS);
    const { key, account } = await house.issue();
    await sendRequest(house.port, { key });
    const answer = await sendRequest(house.port, { key, path: PATH });
    assert.equal(answer.status, 200);
    assert.equal(onlyValue(answer, "Content-Type"), "application/json");
    const usage = await (await house.admin(`/api/usage/${account}`)).json();
    assert.deepEqual(JSON.parse(answer.body.toString()), { ...(usage as object), deprecated: [] });
    assert.deepEqual(
      [rateLimitFieldsOf(answer).limit, rateLimitFieldsOf(answer).remaining],
      [60, 59],
    );
    const head = await sendRequest(house.port, { key, path: PATH, method: "HEAD" });
    assert.deepEqual([head.status, head.body.length], [200, 0]);
    const entry = house.lines[1];
    assert.deepEqual([entry?.decision, entry?.charged, entry?.forwards], ["none", 0, 0]);
    assert.equal(house.backend.seen.length, 1);
    await house.law();
  });

  it("tells a key with limits of its own these, and of no other key, however many ask", async () => {
    await using house = await startTestGateway(OPTIONS);
    const one = await house.issue({ caps: { hour: 5 } });
    const more = { account: one.account, environment: undefined, plan: undefined };
    const other = await house.issue({ ...more, caps: { hour: 7 } });
    const free = await house.issue(more);
    await sendRequest(house.port, { key: one.key });
    const asks = [one, other, free, one, other, free].map(async ({ id, key }) => {
      const answer = await sendRequest(house.port, { key, path: PATH });
      assert.equal(answer.status, 200);
      const told = JSON.parse(answer.body.toString()) as { windows: object[] };
      const usage = await (await house.admin(`/api/usage/${id}`)).json();
      assert.deepEqual(told, { ...(usage as object), deprecated: [] });
      return told.windows.length;
    });
    assert.deepEqual(await Promise.all(asks), [3, 3, 2, 3, 3, 2]);
    await house.law();
  });

  it("lets a page of an allowed origin read the age of its answer", async () => {
    const origin = "https://app.test";
    const environment = { standing: PATH, cors: { origins: [origin] } };
    await using house = await startTestGateway({ ...OPTIONS, environment });
    const { key } = await house.issue();
    const fields = [["Origin", origin]] as const;
    const answer = await sendRequest(house.port, { key, path: PATH, fields });
    assert.deepEqual([answer.status, onlyValue(answer, "Age")], [200, "0"]);
    const exposed = onlyValue(answer, "Access-Control-Expose-Headers").split(", ");
    assert.ok(exposed.includes("Age"), exposed.join());
  });

  it("names the windows in RateLimit-Policy, as an answer of the backend does", async () => {
    const config = { rateLimitFields: "ietf", plans: { free: { minute: 60 } } };
    await using house = await startTestGateway({ ...OPTIONS, config });
    const { key } = await house.issue();
    for (const path of ["/v1/pets", PATH]) {
      const answer = await sendRequest(house.port, { key, path });
      assert.equal(onlyValue(answer, "RateLimit-Policy"), '"minute";q=60;w=60');
    }
  });

  it("answers an account that is limited, and one that is banned", async () => {
    const bans = { strikes: 1, grace: "0s" };
    let nowMs = NOON;
    const config = { plans: { free: { minute: 1 } }, bans };
    await using house = await startTestGateway({ ...OPTIONS, now: () => nowMs, config });
    const { key } = await house.issue();
    const codes = [];
    for (let i = 0; i < 3; i++) {
      const answer = await sendRequest(house.port, { key });
      codes.push(answer.status === 200 ? 200 : errorOf(answer).code);
      nowMs += 1_000;
    }
    assert.deepEqual(codes, [200, "rate_limited", "key_banned"]);
    const answer = await sendRequest(house.port, { key, path: PATH });
    const { windows, ban } = JSON.parse(answer.body.toString());
    assert.deepEqual([answer.status, windows[0].remaining, ban.offences], [200, 0, 1]);
  });

  it("has the fields of the ban while it lasts, though the windows have room again", async () => {
    const bans = { strikes: 1, grace: "0s", duration: "10m" };
    let nowMs = NOON;
    const config = { plans: { free: { minute: 1, day: 50 } }, bans };
    await using house = await startTestGateway({ ...OPTIONS, now: () => nowMs, config });
    const { key } = await house.issue();
    for (let i = 0; i < 3; i++) {
      nowMs += 1_000;
      await sendRequest(house.port, { key });
    }
    const reset = nowMs / 1_000 + 600;
    nowMs += 120_000;
    const banned = await sendRequest(house.port, { key, path: PATH });
    assert.equal(banned.status, 200);
    assert.deepEqual(rateLimitFieldsOf(banned), { limit: 1, remaining: 0, reset });
    assert.equal(onlyValue(banned, "X-RateLimit-Window"), "ban");
    nowMs += 600_000;
    const free = await sendRequest(house.port, { key, path: PATH });
    assert.deepEqual(
      [rateLimitFieldsOf(free).remaining, onlyValue(free, "X-RateLimit-Window")],
      [1, "minute"],
    );
    await house.law();
  });

  it("has the fields of a window that runs, though its answer is told again after another", async () => {
    let nowMs = NOON;
    await using house = await startTestGateway({ ...OPTIONS, now: () => nowMs });
    const { key } = await house.issue({ limits: { second: 5 } });
    const resets = [];
    for (nowMs of [NOON, NOON + 1, NOON + 1_001]) {
      const answer = await sendRequest(house.port, { key, path: PATH });
      resets.push(rateLimitFieldsOf(answer).reset - NOON / 1_000);
    }
    assert.deepEqual(resets, [1, 1, 2]);
  });

  it("needs a valid key, and refuses a suspended account", async () => {
    await using house = await startTestGateway(OPTIONS);
    const none = await sendRequest(house.port, { path: PATH });
    assert.deepEqual([none.status, errorOf(none).code], [401, "key_missing"]);
    const { key, account } = await house.issue();
    const path = `/api/accounts/${account}/suspend`;
    assert.equal((await house.admin(path, { method: "POST", body: "{}" })).status, 200);
    const answer = await sendRequest(house.port, { key, path: PATH });
    assert.deepEqual([answer.status, errorOf(answer).code], [403, "account_suspended"]);
    rateLimitFieldsOf(answer);
  });

  it("is GET and HEAD of that very path: another method is 405, charged, and no backend sees it", async () => {
    await using house = await startTestGateway(OPTIONS);
    const { key } = await house.issue();
    for (const method of ["POST", "DELETE", "OPTIONS"]) {
      const answer = await sendRequest(house.port, { key, path: PATH, method });
      assert.equal(errorOf(answer).code, "method_not_allowed", method);
      assert.equal(onlyValue(answer, "Allow"), "GET, HEAD");
    }
    const more = await sendRequest(house.port, { key, path: `${PATH}/more` });
    assert.equal(errorOf(more).code, "not_found");
    assert.deepEqual(
      house.lines.map(({ charged }) => charged),
      [1, 1, 1, 1],
    );
    await house.law();
  });

  it("leaves all else as it would be without: its path where it is off, other methods without a description", async () => {
    await using off = await startTestGateway({ now: () => NOON });
    const other = await off.issue();
    const answer = await sendRequest(off.port, { key: other.key, path: PATH });
    assert.equal(errorOf(answer).code, "not_found");
    await using undescribed = await startTestGateway({
      ...OPTIONS,
      environment: { standing: PATH, api: undefined },
    });
    const { key } = await undescribed.issue();
    const posted = await sendRequest(undescribed.port, { key, path: PATH, method: "POST" });
    assert.deepEqual([posted.status, undescribed.backend.seen.length], [200, 1]);
  });
});
