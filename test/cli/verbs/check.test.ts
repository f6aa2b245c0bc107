import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { configText, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

describe("check", () => {
  it("says that a right configuration is fine, with 0", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const said = await runVerb(["check", "--config", file]);
    assert.deepEqual({ status: said.status, err: said.err }, { status: 0, err: "" });
    const plans = "free, pro, business, enterprise";
    assert.equal(said.out, `${file} is fine: production, staging; plans ${plans}; store memory\n`);
    const { out } = await runVerb(["check", "--config", file, "--json"]);
    assert.deepEqual(jsonOf({ out }), { ok: true, mistakes: [], warnings: [] });
  });

  it("names the store that is used, so that a variable that no line reads is seen to be ignored", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const env = { REDIS_URL: "redis://:secret@127.0.0.1:6390" };
    const ignored = await runVerb(["check", file], { env });
    assert.match(ignored.out, /; store memory\n$/);
    await writeFile(file, configText({ store: `\${REDIS_URL}` }));
    const used = await runVerb(["check", file], { env });
    assert.match(used.out, /; store redis:\/\/:\*\*\*@127\.0\.0\.1:6390\n$/);
  });

  it("refuses two files with 64, as it checked one and passed over --config", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const other = join(folder.path, "other.yaml");
    const two = await runVerb(["check", file, "--config", other]);
    assert.deepEqual([two.status, two.out], [64, ""]);
    assert.equal(two.err, `Cannot check two files: ${file} and --config ${other}; leave one\n`);
    assert.equal((await runVerb(["check", file, "--config", file])).status, 0, "one file, twice");
  });

  it("prints by how much each window of a meter can be passed", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "tollgate.yaml");
    await writeFile(
      file,
      `environments:
  production:
    listen: 127.0.0.1:0
    keyTag: live
    upstreams: [http://127.0.0.1:1]
    costs:
      - { match: GET /v1/a, meters: { tokens: { hold: 2000, max: 16000, used: [header a] } } }
      - { match: GET /v1/b, meters: { rows: { hold: 9, max: 9, used: [header a] } } }
      - { match: GET /v1/c, meters: { bytes: { hold: 0, max: 70, used: [header a] } } }
plans:
  pro: { minute: 5, meters: { tokens: { minute: 90000, month: 5000000 }, rows: { day: 9 }, bytes: { day: 4 }, idle: { day: 5 } } }
  few: { minute: 5, concurrent: 4, meters: { tokens: { day: 4000 }, rows: { day: 9 }, bytes: { day: 4 } } }
`,
    );
    const { out, status } = await runVerb(["check", "--config", file]);
    assert.equal(status, 0);
    assert.deepEqual(out.trimEnd().split("\n").slice(1), [
      "plan pro: tokens.minute, limit 90000, is passed by at most 630000",
      "plan pro: tokens.month, limit 5000000, is passed by at most 35000000",
      "plan pro: rows.day, limit 9, is never passed",
      "plan pro: bytes.day, limit 4, is passed by at most 70 for each request under way, as a hold is 0",
      "plan pro: idle.day, limit 5, is taken from by no operation",
      "plan few: tokens.day, limit 4000, is passed by at most 28000",
      "plan few: rows.day, limit 9, is never passed",
      "plan few: bytes.day, limit 4, is passed by at most 70 for each request under way, as a hold is 0: by 280 for each process, as concurrent is 4",
    ]);
    const { bounds } = jsonOf<{ bounds: readonly unknown[] }>(
      await runVerb(["check", "--config", file, "--json"]),
    );
    const first = { plan: "pro", meter: "tokens", window: "minute", limit: 90_000 };
    assert.deepEqual(bounds[0], { ...first, over: 630_000, overEach: null });
    assert.equal(bounds.length, 8);
  });

  it("says every mistake at once as FILE:LINE:COL: message, with 78", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "broken.yaml");
    await writeFile(
      file,
      `${configText()}keyPrefix: "Not This"\nexpectedGateways: none\nbogus: 1\n`,
    );
    const lines = configText().split("\n").length;
    const said = await runVerb(["check", "--config", file]);
    assert.equal(said.status, 78);
    assert.equal(said.out, "");
    const places = said.err
      .trimEnd()
      .split("\n")
      .map((line) => /^(.*?):(\d+):\d+: \S/.exec(line)?.slice(1, 3));
    assert.deepEqual(places, [
      [file, String(lines)],
      [file, String(lines + 1)],
      [file, String(lines + 2)],
    ]);
    const told = await runVerb(["check", "--config", file, "--json"]);
    assert.equal(told.status, 78);
    const { ok, mistakes } = jsonOf<{ ok: boolean; mistakes: { line: number }[] }>(told);
    assert.deepEqual(
      { ok, lines: mistakes.map(({ line }) => line - lines) },
      { ok: false, lines: [0, 1, 2] },
    );
  });

  it("names, with --keys, the scopes that no working key has", async () => {
    await using folder = await openFolder();
    const api = `openapi: 3.1.0
security: [{ token: [] }]
components: { securitySchemes: { token: { type: http, scheme: bearer } } }
paths:
  /orders:
    get: { security: [{ token: [orders:read] }] }
    post: { security: [{ token: [orders:write] }], x-stability-level: beta, x-requires-scope: true }
`;
    await writeFile(join(folder.path, "api.yaml"), api);
    const file = join(folder.path, "tollgate.yaml");
    await writeFile(file, configText().replaceAll(/api: .*/g, "api: ./api.yaml"));
    const plain = await runVerb(["check", "--config", file]);
    assert.deepEqual([plain.status, plain.err], [0, ""]);
    const issue = ["keys", "create", "--config", file, "--plan", "free", "--env"];
    await runVerb([...issue, "production", "--scope", "orders:read", "--scope", "beta"]);
    const gone = await runVerb([...issue, "production", "--scope", "orders:write", "--json"]);
    const { id } = jsonOf<{ id: string }>(gone);
    await runVerb(["keys", "revoke", id, "--config", file]);

    await runVerb([...issue, "staging", "--scope", "beta", "--expires", "1d"]);

    const later = { nowMs: Date.now() + 86_400_000 };
    const told = await runVerb(["check", "--keys", "--config", file, "--json"], later);
    assert.equal(told.status, 0);
    const { warnings } = jsonOf<{ warnings: { message: string }[] }>(told);
    const message =
      "No working key of production has the scope orders:write, which POST /v1/orders asks for; issue one with --scope orders:write";
    assert.deepEqual(warnings[0], { file, line: 1, column: 1, message });
    assert.deepEqual(
      warnings.map(({ message }) => message.split(",")[0]),
      [
        "No working key of production has the scope orders:write",
        "No working key of staging has the scope orders:read",
        "No working key of staging has the scope beta",
        "No working key of staging has the scope orders:write",
      ],
    );
  });

  it("names, with --keys, the accounts whose environment or plan the file has no more", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    for (const [account, env, plan] of [
      ["moved", "staging", "free"],
      ["dropped", "production", "pro"],
      ["kept", "production", "free"],
    ] as const) {
      const issue = ["keys", "create", "--account", account, "--env", env, "--plan", plan];
      assert.equal((await runVerb([...issue, "--config", file])).status, 0);
    }
    const text = configText()
      .replace("staging:", "test:")
      .replace(/^ {2}pro: .*\n/m, "");
    await writeFile(file, text);
    const { status, err } = await runVerb(["check", "--keys", "--config", file]);
    assert.equal(status, 0);
    assert.match(err, /^\S+:1:1: warning: .* no plan pro, and the account dropped has it;/m);
    assert.match(err, /^\S+:1:1: warning: There is no environment staging, .* moved has it:/m);
    assert.doesNotMatch(err, /kept/);
    assert.equal((await runVerb(["check", "--config", file])).err, "");
  });

  it("warns and still ends with 0", async () => {
    await using folder = await openFolder();
    const api = join(folder.path, "api.yaml");
    const operation = "get: { deprecated: true, responses: { '200': { description: ok } } }";
    await writeFile(
      api,
      `openapi: 3.1.0\ninfo: { title: t, version: "1" }\npaths:\n  /old:\n    ${operation}\n`,
    );
    const file = join(folder.path, "tollgate.yaml");
    await writeFile(file, configText().replaceAll(/api: .*/g, "api: ./api.yaml"));
    const { status, err } = await runVerb(["check", "--config", file]);
    assert.equal(status, 0);
    assert.match(err, /api\.yaml:5:\d+: warning: /);
  });

  it("a verb that needs the whole configuration lists its mistakes, with 78", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "broken.yaml");
    await writeFile(file, `${configText()}bogus: 1\nbogus2: 1\n`);
    for (const verb of ["start", "check"]) {
      const said = await runVerb([verb, "--config", file]);
      assert.deepEqual({ verb, status: said.status, out: said.out }, { verb, status: 78, out: "" });
      assert.match(said.err, /^.*broken\.yaml:\d+:1: .*\n.*broken\.yaml:\d+:1: .*\n$/);
    }
  });

  it("a verb that asks a gateway warns of them, and goes on without one that runs", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "broken.yaml");
    await writeFile(file, `${configText()}bogus: 1\nbogus2: 1\n`);
    const listed = await runVerb(["keys", "list", "--config", file, "--json"]);
    assert.deepEqual([listed.status, listed.out], [0, "[]\n"]);
    assert.match(listed.err, /^.*broken\.yaml:\d+:1: .*\n.*broken\.yaml:\d+:1: .*\n$/);
    const unknown = await runVerb(["keys", "revoke", "x", "--config", file]);
    assert.equal(unknown.status, 1);
  });
});

describe("schema", () => {
  it("prints the JSON Schema that is committed", async () => {
    const { status, out } = await runVerb(["schema"]);
    assert.equal(status, 0);
    const committed = join(import.meta.dirname, "../../../config/tollgate.schema.json");
    assert.equal(out, await readFile(committed, "utf8"));
  });
});
