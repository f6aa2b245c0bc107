import assert from "node:assert/strict";
import { request } from "node:http";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";

const [OLD, NEW] = ["canary-token-that-was-leaked-0001", "canary-token-that-is-in-force-002"];

function adminOf(token: string, hosts: readonly string[] = []) {
  return { admin: { listen: "127.0.0.1:0", token, hosts } };
}

async function asked(house: TestGateway, token: string, init: RequestInit = {}): Promise<number> {
  const headers = token === "" ? {} : { Authorization: `Bearer ${token}` };
  const path = init.method === "POST" ? "/api/reload" : "/api/keys";
  const got = await house.admin(path, { ...init, headers });
  await got.text();
  return got.status;
}

/** Fetch sends no Host of its own choice. */
function statusAs(house: TestGateway, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { Host: host, Authorization: `Bearer ${NEW}` };
    const sent = request(`${house.adminUrl}/api/keys`, { headers, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    sent.once("error", reject).end();
  });
}

describe("a reload with another admin token", () => {
  it("lets in whoever has the new one, and nobody with the old one", async () => {
    await using house = await startTestGateway({ config: adminOf(OLD) });
    assert.deepEqual([await asked(house, OLD), await asked(house, NEW)], [200, 401]);
    await house.rewrite(adminOf(NEW));
    assert.equal(await asked(house, OLD, { method: "POST", body: "{}" }), 200);
    assert.deepEqual([await asked(house, OLD), await asked(house, NEW)], [401, 200]);
    assert.equal(await asked(house, ""), 401);
    await house.rewrite(adminOf(""));
    assert.equal(await asked(house, NEW, { method: "POST", body: "{}" }), 200);
    assert.equal(await asked(house, ""), 200, "none is asked for any more");
  });

  it("takes new names of the listener, and lets go of the old ones", async () => {
    await using house = await startTestGateway({ config: adminOf(NEW, ["old.internal"]) });
    assert.equal(await statusAs(house, "old.internal"), 200);
    assert.equal(await statusAs(house, "new.internal"), 403);
    await house.rewrite(adminOf(NEW, ["new.internal"]));
    assert.equal(await asked(house, NEW, { method: "POST", body: "{}" }), 200);
    assert.equal(await statusAs(house, "old.internal"), 403);
    assert.equal(await statusAs(house, "new.internal"), 200);
  });

  it("ends streams that were opened with the old one, and none with the new one", async () => {
    await using house = await startTestGateway({ config: adminOf(OLD) });
    const stream = await openStream(house, OLD);
    await eventually(() => assert.match(stream.text, /event: figures/));
    await house.rewrite(adminOf(NEW));
    assert.equal(await asked(house, OLD, { method: "POST", body: "{}" }), 200);
    const again = await openStream(house, NEW);
    await eventually(() => assert.equal(stream.ended, true));
    await eventually(() => assert.ok(again.text.split("event: figures").length > 3));
    assert.equal(again.ended, false);
    again.close();
  });
});

async function openStream(house: TestGateway, token: string) {
  const abort = new AbortController();
  const headers = { Authorization: `Bearer ${token}` };
  const got = await house.admin("/api/events", { headers, signal: abort.signal });
  const state = { text: "", ended: false, close: () => abort.abort() };
  const read = async () => {
    for await (const piece of got.body ?? []) state.text += Buffer.from(piece).toString();
    state.ended = true;
  };
  void read().catch(() => undefined);
  return state;
}
