import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { it } from "vitest";
import { recordLines } from "../../src/stores/keys/file/export-records.ts";
import { encodeKeyFile } from "../../src/stores/keys/file/file-format.ts";
import { diffRecords } from "../../src/stores/keys/file/record-patch.ts";
import { runVerb } from "../cli/kit.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { recordsFrom } from "../support/records.ts";

const FREE = { free: { minute: 60 } };
const BOTH = { ...FREE, pro: { minute: 60 } };

/** Writes the key file as another process does. */
function writeKeys(house: TestGateway, plan: string): void {
  const records = recordsFrom([{ account: "elsewhere", plan }]);
  writeFileSync(join(house.directory, "keys.json"), [...encodeKeyFile(records)].join(""));
}

it("a reload that drops a plan and keys that are created on it at once are never both confirmed", async () => {
  await using house = await startTestGateway({ config: { plans: BOTH } });
  const create = (account: string) => {
    const body = JSON.stringify({ environment: "production", plan: "pro", account });
    return house.admin("/api/keys", { method: "POST", body });
  };
  const outcomes: string[] = [];
  for (let round = 0; round < 4; round++) {
    await house.rewrite({ plans: BOTH });
    assert.equal((await house.gateway.reload()).ok, true);
    await house.rewrite({ plans: FREE });
    const reloading = house.gateway.reload();
    const creating: ReturnType<typeof create>[] = [];
    for (let i = 0; i < 6; i++) {
      creating.push(create(`r${round}-${i}`));
      await pause(round);
    }
    const created = (await Promise.all(creating)).filter(({ status }) => status === 201);
    const { ok } = await reloading;
    const issued = (await Promise.all(created.map((one) => one.json()))) as { key: string }[];
    const statuses = await Promise.all(
      issued.map(async ({ key }) => (await house.ask(key)).status),
    );
    const refused = statuses.filter((status) => status !== 200).length;
    outcomes.push(`${ok !== issued.length > 0 ? "one" : "both"}, ${refused} dead`);
    const body = JSON.stringify({ plan: "free" });
    await house.admin("/api/accounts?plan=pro", { method: "PATCH", body });
  }
  assert.deepEqual(outcomes, Array(4).fill("one, 0 dead"));
});

it("a plan that a gateway lacks is told once while records of another process have it, and again if they have it again", async () => {
  await using house = await startTestGateway({ config: { plans: FREE } });
  const warned = () => house.said.filter(({ msg }) => msg === "config_warning");
  const plans = ["pro", "gone", "pro"];
  for (const [i, plan] of plans.entries()) {
    writeKeys(house, plan);
    await eventually(() => assert.equal(warned().length, i + 1));
    await house.issue();
  }
  assert.deepEqual(
    warned().map(
      ({ why }) => /there is no plan (\w+), and the account elsewhere/.exec(`${why}`)?.[1],
    ),
    plans,
  );
});

it("a reload that drops a plan is refused over a record that another process wrote since the last look, or after the check", async () => {
  let armed = () => {};
  const now = () => {
    armed();
    return Date.now();
  };
  await using house = await startTestGateway({ config: { plans: BOTH }, now });
  const refused = async () => {
    const done = await house.gateway.reload();
    return "reasons" in done ? done.reasons?.join() : "taken";
  };
  const why = /^Cannot drop the plan pro by a reload: the account elsewhere has it/;
  await house.rewrite({ plans: FREE });
  writeKeys(house, "pro");
  assert.match(String(await refused()), why);
  writeKeys(house, "free");
  // The reload reads the clock when it judges the plans.
  armed = () => {
    armed = () => {};
    writeKeys(house, "pro");
  };
  assert.match(String(await refused()), why);
  assert.equal((await house.admin("/api/plans").then((all) => all.text())).includes("pro"), true);
  await house.issue({ plan: "pro" });
  writeKeys(house, "free");
  assert.equal(await refused(), "taken");
});

it("a whole key file is taken in from another machine with its accounts of a plan that is gone", async () => {
  await using house = await startTestGateway({ config: { plans: FREE } });
  const kept = recordsFrom([
    { id: "k_1", account: "gone", plan: "pro" },
    { id: "k_2", account: "there", plan: "free" },
  ]);
  const file = join(house.directory, "kept.json");
  writeFileSync(file, [...encodeKeyFile(kept)].join(""));
  const done = await runVerb(["keys", "import", file, "--admin", house.adminUrl]);
  assert.equal(done.status, 0, done.err);
  const shown = await house.admin("/api/accounts/gone");
  assert.equal(((await shown.json()) as { plan: string }).plan, "pro");
  // As wrong usage, or the command would send it again.
  const late = recordsFrom([{ id: "k_3", account: "late", plan: "pro" }]);
  const body = JSON.stringify({ changes: diffRecords({ keys: [], accounts: [] }, late) });
  const sent = await house.admin("/api/records", { method: "PATCH", body });
  assert.equal(sent.status, 400, await sent.text());
});

it("a reload that drops a plan and an import of accounts on it are never both confirmed", async () => {
  await using house = await startTestGateway({ config: { plans: BOTH } });
  const some = Array.from({ length: 3_000 }, (_, i) => ({ id: `k_${i}`, account: `a_${i}` }));
  const lines = recordLines(recordsFrom(some.map((one) => ({ ...one, plan: "pro" }))));
  const records = [...lines].map((line) => JSON.parse(line) as unknown);
  const body = JSON.stringify({ records });
  await house.rewrite({ plans: FREE });
  const importing = house.admin("/api/keys/import", { method: "POST", body });
  await pause(30);
  const { ok } = await house.gateway.reload();
  const imported = await importing;
  assert.notEqual(ok, imported.ok, await imported.text());
});
