import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import { runTollgate } from "../support/gateway/processes.ts";
import { type Folder, jsonOf, openFolder, runVerb, writeConfig } from "./kit.ts";

let folder: Folder;
let file: string;
beforeAll(async () => {
  folder = await openFolder();
  file = await writeConfig(folder);
});
afterAll(() => folder[Symbol.asyncDispose]());

describe("wrong usage ends with 64, in words on stderr and nothing on stdout", () => {
  const CREATE = ["keys", "create", "--env", "production", "--plan", "free"];
  const WRONG: readonly [args: readonly string[], says: RegExp][] = [
    [["frobnicate"], /Unknown verb "frobnicate": expected init, start, pets, .*usage/],
    [["keys"], /Expected create, list, show, .*rotate, revoke.* after keys: found nothing/],
    [["keys", "frobnicate"], /found "frobnicate"/],
    [["Keys", "list"], /Unknown verb "Keys"/],
    [["help", "frobnicate"], /Unknown verb "frobnicate"/],
    [["help", "keys", "creat"], /^Expected create, .* after keys: .*: did you mean create\?/],
    [["keys", "creat", "--help"], /^Expected create, .* after keys: .*: did you mean create\?/],
    [["--frobnicate"], /Unknown verb "--frobnicate"/],
    [["keys", "list", "--frobnicate"], /Unknown option --frobnicate/],
    [["accounts", "reset", "acme", "--win", "day"], /Unknown option --win/],
    [["keys", "list", "extra"], /Unexpected argument 1: no argument is taken/],
    [["keys", "list", "--config"], /--config needs a value: --config FILE/],
    [["keys", "list", "--json=yes"], /--json takes no value/],
    [["keys", "show"], /Missing ID/],
    [["keys", "rotate"], /Missing ID/],
    [["keys", "revoke"], /Missing ID/],
    [["keys", "rotate", "k_1", "--grace", "soon"], /Cannot read --grace .*"soon"/],
    [["bans", "lift"], /Missing ID/],
    [["keys", "create", "--plan", "free"], /Missing --env/],
    [["keys", "create", "--env", "production"], /Missing --plan/],
    [
      ["keys", "create", "--env", "moon", "--plan", "free"],
      /environment "moon" .*production, staging/,
    ],
    [
      ["keys", "create", "--env", "production", "--plan", "gold"],
      /plan "gold" .*free, pro, business, enterprise/,
    ],
    [["keys", "create", "--env", "production", "--plan", "enterprise"], /without a limit/],
    [[...CREATE, "--limit", "fortnight=5"], /Cannot read --limit .*"fortnight=5"/],
    [[...CREATE, "--limit", "minute"], /Cannot read --limit/],
    [[...CREATE, "--limit", "minute=0"], /whole number from 1 to 10\^12/],
    [[...CREATE, "--limit", "minute=1000000000001"], /whole number from 1 to 10\^12/],
    [[...CREATE, "--limit", "minute=1", "--limit", "minute=2"], /two limits/],
    [["keys", "rotate", "k_1", "--grace", "24H"], /Cannot read --grace .*"24H"/],
    [[...CREATE, "--expires", "90"], /Cannot read --expires as a duration .*"90"/],
    [[...CREATE, "--count", "0"], /count must be/],
    [[...CREATE, "--count", "many"], /Cannot read --count .*"many"/],
    [[...CREATE, "--account", "a b"], /Cannot use the account "a b"/],
    [[...CREATE, "--scope", "Beta!"], /scopes/],
    [["pets"], /Missing --listen/],
    [["keys", "list", "--plan", "gold"], /Unknown plan "gold": expected free, pro/],
    [["plans", "try"], /Missing NEW\.yaml, --log FILE/],
    [
      ["bans", "add", "acme", "--for", "1h", "--reason", "x\u202ey"],
      /reason: .* direction of text/,
    ],
    [["pets", "--listen", "9001", "--json", "--config", "any.yaml"], /Cannot read --listen/],
    [["pets", "--listen", "9001"], /Cannot read --listen: write HOST:PORT.*"9001"/],
  ];
  for (const [args, says] of WRONG) {
    it(args.join(" ") || "(nothing)", async () => {
      const named = takesConfig(args) ? [...args, "--config", file] : args;
      const said = await runVerb(named);
      assert.match(said.err, says);
      assert.deepEqual({ status: said.status, out: said.out }, { status: 64, out: "" });
      assert.doesNotMatch(said.err, /\n.+\n|\bat .*\.ts:/);
    });
  }

  it("nothing at all shows how to use it, and is 64", async () => {
    const said = await runVerb([]);
    assert.deepEqual({ status: said.status, out: said.out }, { status: 64, out: "" });
    assert.match(said.err, /Usage: tollgate VERB/);
  });

  function takesConfig(args: readonly string[]): boolean {
    return args[0] === "keys" && args[1] === "create";
  }
});

describe("help", () => {
  it("is asked for in every usual way, and always goes to stdout with 0", async () => {
    for (const args of [["help"], ["--help"], ["-h"]]) {
      const said = await runVerb(args);
      assert.deepEqual({ status: said.status, err: said.err }, { status: 0, err: "" });
      assert.match(said.out, /Usage: tollgate VERB/);
    }
    for (const args of [
      ["help", "keys", "create"],
      ["keys", "create", "--help"],
      ["keys", "create", "-h"],
    ]) {
      const said = await runVerb(args);
      assert.equal(said.status, 0);
      assert.match(said.out, /Usage: tollgate keys create --env ENV --plan PLAN/);
      assert.match(said.out, /--limit minute=500/);
    }
    for (const args of [
      ["help", "keys"],
      ["keys", "--help"],
    ]) {
      const said = await runVerb(args);
      assert.equal(said.status, 0);
      assert.match(said.out, /keys rotate/);
      assert.doesNotMatch(said.out, /bans/);
    }
  });

  it("is one value of JSON with --json, whichever way it is asked for", async () => {
    for (const args of [
      ["help"],
      ["--help"],
      ["help", "keys"],
      ["keys", "--help"],
      ["keys", "list", "--help"],
    ]) {
      const [text, json] = [await runVerb(args), await runVerb([...args, "--json"])];
      assert.deepEqual([json.status, jsonOf(json)], [0, { help: text.out }], args.join(" "));
    }
    assert.equal((await runVerb(["keys", "--json"])).status, 64);
  });

  it("names every verb", async () => {
    const { out } = await runVerb(["help"]);
    const verbs = ["start", "pets", "check", "schema", "keys create", "keys list", "keys show"];
    for (const verb of [
      ...verbs,
      "keys rotate",
      "keys revoke",
      "bans list",
      "bans lift",
      "usage",
    ]) {
      assert.match(out, new RegExp(`^ {2}${verb} `, "m"));
      assert.equal((await runVerb([...verb.split(" "), "--help"])).status, 0, verb);
    }
  });

  it("is told by help of help as well", async () => {
    const { out } = await runVerb(["help"]);
    for (const args of [["help", "help"], ["help", "--help"], ["--help"]]) {
      assert.deepEqual(await runVerb(args), { status: 0, out, err: "" }, args.join(" "));
    }
  });

  it("--version prints the version", async () => {
    assert.deepEqual(await runVerb(["--version"]), { status: 0, out: "tollgate 9.8.7\n", err: "" });
  });
});

describe("as a process", () => {
  it("ends with 64 for wrong usage, 1 for an unknown ID, 78 for no configuration", async () => {
    const [usage, unknown, missing] = await Promise.all([
      runTollgate(["frobnicate"]),
      runTollgate(["keys", "show", "k_nobody", "--json", "--config", file]),
      runTollgate(["keys", "list", "--config", `${folder.path}/none.yaml`]),
    ]);
    assert.deepEqual([usage.code, unknown.code, missing.code], [64, 1, 78]);
    for (const { stdout, stderr } of [usage, unknown, missing]) {
      assert.equal(stdout, "");
      assert.match(stderr, /^.+\n$/);
    }
    assert.match(missing.stderr, /none\.yaml:1:1: Cannot read the configuration/);
  });

  it("does not mind a reader that goes away", async () => {
    const { code, stderr } = await runTollgate(["help"]);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  });
});
