import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { recorded, recordedRun, TERMS } from "./first-release.ts";

const { recordedMs, keys } = await recordedRun("file.json");

/** Today's gateway on the files of the first release, a second after they were written. */
async function upgraded() {
  const files = {
    "keys.json": await recorded("keys.json"),
    "state.json": await recorded("state.json"),
  };
  const now = () => recordedMs + 1_000;
  return startTestGateway({ config: TERMS, environment: { api: null }, files, now });
}

describe("the files of the first release", () => {
  it("are read with every count, strike and ban, and every key works as it did", async () => {
    await using house = await upgraded();
    const told: unknown[] = [];
    for (const name of ["ada", "acme", "acmeSecond", "rotated", "successor"] as const) {
      const { status, headers } = await house.ask(keys[name].key);
      told.push([name, status, headers.get("x-ratelimit-remaining")]);
    }
    assert.deepEqual(told, [
      ["ada", 200, "1"],
      ["acme", 200, "40"],
      ["acmeSecond", 200, "39"],
      ["rotated", 200, "2"],
      ["successor", 200, "1"],
    ]);
    const refused: unknown[] = [];
    for (const name of ["ben", "eve", "gone"] as const) {
      const response = await house.ask(keys[name].key);
      const { code } = (await response.json()) as { code: string };
      refused.push([name, response.status, code]);
    }
    assert.deepEqual(refused, [
      ["ben", 429, "key_banned"],
      ["eve", 429, "key_banned"],
      ["gone", 401, "key_invalid"],
    ]);
    const pro = (await (await house.admin(`/api/usage/${keys.pro.id}`)).json()) as {
      windows: { window: string; used: number }[];
    };
    assert.deepEqual(
      pro.windows.map(({ window, used }) => [window, used]),
      [["second", 0], ...["minute", "hour", "day", "month"].map((window) => [window, 4])],
    );
  });

  it("are written in today's form by the next change, with nothing lost", async () => {
    const house = await upgraded();
    const old = JSON.parse(await recorded("keys.json")) as { keys: Record<string, unknown>[] };
    const oldState = JSON.parse(await recorded("state.json")) as { accounts: object[] };
    try {
      await house.issue({ plan: "pro", account: "new" });
      await house.gateway.stop();
      const text = await readFile(join(house.directory, "keys.json"), "utf8");
      const file = JSON.parse(text) as Record<"keys" | "accounts", Record<string, unknown>[]>;
      assert.deepEqual(
        file.keys.slice(0, -1),
        old.keys.map(({ plan, limits, ...rest }) => ({ version: 2, ...rest })),
      );
      const terms = file.accounts.map(({ id, plan, limits }) => [id, plan, limits]);
      assert.deepEqual(new Map(terms.map((each) => [each[0], each.slice(1)])), termsOf(old.keys));
      const state = JSON.parse(await readFile(join(house.directory, "state.json"), "utf8"));
      assert.deepEqual(state.accounts, oldState.accounts);
    } finally {
      await house[Symbol.asyncDispose]();
    }
  });
});

/** Plan and limits of each account by the old records, and those of the one that was issued. */
function termsOf(old: readonly Record<string, unknown>[]): Map<unknown, unknown> {
  const terms = old.map(({ account, plan, limits }) => [account, [plan, limits]] as const);
  return new Map<unknown, unknown>([...terms, ["new", ["pro", {}]]]);
}
