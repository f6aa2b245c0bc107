import assert from "node:assert/strict";
import { appendFile } from "node:fs/promises";
import { describe, it } from "vitest";
import type { AccountReport } from "../../../src/core/keys/record-reports.ts";
import { openAudited } from "../audit-kit.ts";
import { jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const source = { hold: 1, max: 2, used: ["header x-used"] };

/** `rows` is a meter of a plan, `images` one of an operation that no plan has. */
const METERED = {
  environment: {
    api: null,
    costs: [{ match: "POST /v1/chat", meters: { rows: source, images: source } }],
  },
  config: {
    bans: "off",
    plans: { free: { day: 1000, meters: { rows: { day: 9 } } }, pro: { day: 5000 } },
  },
};
const UNKNOWN = /^Cannot limit the meter tokns: no plan and no operation has it; the meters are /;

describe("a limit of a meter that is nowhere in the configuration", () => {
  it("is refused by the commands with 64 and by the API with 400, naming the meters there are", async () => {
    await using house = await openAudited(METERED);
    const { account } = await house.issue();
    const run = (...args: string[]) => runVerb([...args, "--config", house.file]);
    const create = ["keys", "create", "--env", "production", "--plan", "free"];
    const wrong = ["--limit", "tokns.month=5"];
    for (const verb of [
      [...create, ...wrong],
      ["accounts", "set", account, ...wrong],
      ["accounts", "set", "--on", "free", ...wrong],
    ]) {
      const said = await run(...verb);
      assert.deepEqual([said.status, said.out], [64, ""], verb.join(" "));
      assert.match(said.err, UNKNOWN);
      assert.match(said.err, / rows, images\n$/);
    }
    const limits = { "tokns.month": 5 };
    for (const [method, path, body] of [
      ["POST", "/api/keys", { environment: "production", plan: "free", limits }],
      ["PATCH", `/api/accounts/${account}`, { limits }],
      ["PATCH", "/api/accounts?plan=free", { limits }],
    ] as const) {
      const answer = await house.admin(path, { method, body: JSON.stringify(body) });
      const { code, message } = (await answer.json()) as { code: string; message: string };
      assert.deepEqual([answer.status, code], [400, "bad_request"], path);
      assert.match(message, UNKNOWN);
    }
    const shown = await run("accounts", "show", account, "--json");
    assert.deepEqual(jsonOf<AccountReport>(shown).limits, {});
  });

  it("is taken for a meter of any plan or operation, also of another plan, and through --admin", async () => {
    await using house = await openAudited(METERED);
    const { account } = await house.issue({ plan: "pro" });
    for (const where of [
      ["--config", house.file],
      ["--admin", house.adminUrl],
    ]) {
      for (const limit of ["rows.day=7", "images.month=8"]) {
        const said = await runVerb(["accounts", "set", account, "--limit", limit, ...where]);
        assert.equal(said.status, 0, said.err);
      }
      const wrong = ["accounts", "set", account, "--limit", "tokns.day=1", ...where];
      const said = await runVerb(wrong);
      assert.equal(said.status, 64);
      assert.match(said.err, UNKNOWN);
    }
    const shown = await runVerb(["accounts", "show", account, "--json", "--config", house.file]);
    const { limits } = jsonOf<AccountReport>(shown);
    assert.deepEqual(limits, { "images.month": 8, "rows.day": 7 });
  });

  it("is taken where a file with mistakes cannot tell its meters, and no gateway runs", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const create = ["keys", "create", "--env", "production", "--plan", "free", "--config", file];
    const none = await runVerb([...create, "--limit", "tokens.day=5"]);
    assert.equal(none.status, 64);
    assert.match(none.err, /^Cannot limit the meter tokens: the configuration has no meters$/m);
    await appendFile(file, "plams: { free: { minute: 1 } }\n");
    const made = await runVerb([...create, "--limit", "tokens.day=5", "--json"]);
    assert.deepEqual(jsonOf<AccountReport>(made).limits, { "tokens.day": 5 });
  });

  it("stays with an account whose meter was taken out of the configuration", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder, {
      free: "{ minute: 60, meters: { tokens: { day: 9 } } }",
    });
    const create = ["keys", "create", "--env", "production", "--plan", "free", "--config", file];
    const made = await runVerb([...create, "--limit", "tokens.day=5", "--json"]);
    const { account } = jsonOf<AccountReport>(made);
    await writeConfig(folder);
    const set = ["accounts", "set", account, "--limit", "minute=7", "--config", file, "--json"];
    const told = await runVerb(set);
    assert.deepEqual(jsonOf<AccountReport>(told).limits, { minute: 7, "tokens.day": 5 });
  });
});
