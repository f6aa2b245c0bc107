import assert from "node:assert/strict";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { readState } from "../../../src/stores/quotas/memory/state-file.ts";
import { runVerb } from "../../cli/kit.ts";
import { startTestGateway } from "../../support/gateway/house.ts";

describe("a change by an operator, with the memory store", () => {
  it("is in the state file when it is answered: a ban, its lift, a reset", async () => {
    await using house = await startTestGateway({ config: { stateFile: "./state.json" } });
    const { account, key } = await house.issue();
    const send = async (method: string, path: string, body: object = {}) => {
      const response = await house.admin(path, { method, body: JSON.stringify(body) });
      assert.ok(response.ok, await response.clone().text());
      const saved = await readState(join(house.directory, "state.json"));
      return saved.find((one) => one.account === account)?.state;
    };
    assert.equal((await house.ask(key)).status, 200);
    const banned = await send("POST", "/api/bans", { id: account, for: "1h" });
    assert.equal(banned?.usage.day?.count, 1);
    assert.equal(banned.ban?.lengthMs, 3_600_000);
    assert.equal((await send("DELETE", `/api/bans/${account}`))?.ban, undefined);
    const reset = await send("POST", `/api/accounts/${account}/reset`);
    assert.equal(reset?.usage.day?.count, 0);
  });

  it("is in force and in the log if the state file cannot be written, and the answer says so", async () => {
    await using house = await startTestGateway({ config: { stateFile: "./state.json" } });
    const { account } = await house.issue();
    const inTheWay = join(house.directory, "state.json.tmp");
    await mkdir(join(inTheWay, "folder"), { recursive: true });
    const body = JSON.stringify({ id: account, for: "1h" });
    const response = await house.admin("/api/bans", { method: "POST", body });
    const { code, message } = (await response.json()) as { code: string; message: string };
    assert.deepEqual([response.status, code], [503, "store_unavailable"]);
    assert.match(message, /^This is in force, but a restart would forget it: Cannot write the sta/);
    const bans = (await (await house.admin("/api/bans")).json()) as { account: string }[];
    assert.deepEqual(
      bans.map((ban) => ban.account),
      [account],
    );
    assert.equal(house.said.filter(({ kind }) => kind === "ban").length, 1);
    const lift = ["bans", "lift", account, "--admin", house.adminUrl];
    const failed = await runVerb(lift);
    assert.equal(failed.status, 1);
    assert.match(failed.err, /This is in force, but a restart would forget it/);
    await rm(inTheWay, { recursive: true });
    const added = await runVerb(["bans", "add", account, "--for", "1h", "--admin", house.adminUrl]);
    assert.equal(added.status, 0, added.err);
  });
});
