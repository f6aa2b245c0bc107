import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { parseArguments } from "../../../src/cli/framework/parse.ts";
import { formatCsv, formatTable } from "../../../src/cli/framework/table.ts";
import type { Terminal } from "../../../src/cli/framework/terminal.ts";
import { LOG, logFilesOf, parsePeriodOption, type Verb } from "../../../src/cli/framework/verb.ts";
import { openFolder, runVerb, writeConfig } from "../kit.ts";

describe("the values of options", () => {
  it("are refused with 64 and their form: an admin listener over TLS, metadata without a name", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const create = ["keys", "create", "--env", "production", "--plan", "free"];
    for (const [args, says] of [
      [
        ["status", "--admin", "https://me:s3cret@127.0.0.1:9090"],
        /^Cannot use --admin "https:\/\/\*\*\*@127\.0\.0\.1:9090": commands ask admin listeners by http only/,
      ],
      [["bans", "list", "--admin", "127.0.0.1:9090"], /^Cannot read --admin as the address of/],
      [["explain", "r", "--admin", "ftp://127.0.0.1"], /^Cannot read --admin as the address of/],
      [[...create, "--meta", "=42"], /^Cannot read --meta as NAME=VALUE: the value is "=42"/],
      [[...create, "--meta", "tenant"], /^Cannot read --meta as NAME=VALUE: the value is "tenant"/],
      [
        [...create, "--meta", "a=1", "--meta", "a=2"],
        /^Cannot use one name of --meta twice: give each name once/,
      ],
      [
        [...create, "--cap", "day=x"],
        /^Cannot read --cap as WINDOW=NUMBER with a window of second/,
      ],
      [[...create, "--cap", "tokens.day=1"], /^Cannot read --cap as WINDOW=NUMBER/],
      [
        [...create, "--limit", "fortnight=5"],
        /^Cannot read --limit as WINDOW=NUMBER with a window of .*: the value is "fortnight=5"/,
      ],
      [
        [...create, "--limit", "day=-5"],
        /^Cannot read --limit as WINDOW=NUMBER .* a whole number from 1 to 10\^12: the/,
      ],
      [[...create, "--limit", "day=5", "--limit", "day"], /: the value is "day"$/m],
      [
        [...create, "--anchor", "1st"],
        /^Cannot read --anchor as a day of the month from 1 to 31: the value is "1st"/,
      ],
      [[...create, "--anchor", "1.5"], /^Cannot read --anchor .*"1\.5"/],
      ...["2.5", "-1", "1000000000"].map((count) => {
        const told = `^Cannot read --count as a whole number from 1 to 1000: the value is "${count}"`;
        return [[...create, "--count", count], new RegExp(told)] as const;
      }),
      [[...create, "--expires", "soon"], /^Cannot read --expires as a duration such as 10s/],
      [[...create, "--expires", "36526d"], /^Cannot use --expires 36526d: it must be from 1ms to/],
    ] as const) {
      const said = await runVerb([...args, "--config", file]);
      assert.deepEqual([said.status, said.out], [64, ""], args.join(" "));
      assert.match(said.err, says);
    }
    const made = await runVerb([...create, "--meta", "token=a=b", "--json", "--config", file]);
    assert.equal(made.status, 0, "a value may hold =");
  });
});

describe("one use of a verb", () => {
  const options: Verb["options"] = [LOG, { name: "grace", value: "24h", summary: "" }];
  const verb = { name: "x", usage: "", summary: "", options, args: [], more: true };
  const callOf = (...argv: string[]) => {
    const parsed = parseArguments({ ...verb, run: async () => 0 }, argv);
    return parsed.ok ? parsed.invocation : assert.fail(parsed.message);
  };

  it("has the files of --log and those behind its arguments, and none without --log", () => {
    const invocation = callOf("new.yaml", "--log", "a.log", "b.log");
    assert.deepEqual(logFilesOf(invocation, 1), ["a.log", "b.log"]);
    assert.deepEqual(logFilesOf(callOf(), 0), []);
    assert.deepEqual(logFilesOf(callOf("--log", "a.log", "b.log"), 0), ["a.log", "b.log"]);
  });

  it("has a length of time within its bounds, of which the least is the verb's own", () => {
    const graceMs = (text: string) => parsePeriodOption(callOf("--grace", text), "grace", 0);
    assert.deepEqual(["0s", "36525d"].map(graceMs), [0, 36_525 * 86_400_000]);
    assert.equal(graceMs("36526d"), "Cannot use --grace 36526d: it must be from 0ms to 36525d");
  });
});

describe("a table for people", () => {
  it("has texts to the left and numbers to the right, and no space at the end of a line", () => {
    const rows = [
      ["a", 5, "x", "long text"],
      ["long name", 1_000, 7, ""],
    ];
    const table = formatTable(
      { env: {}, isTty: false } as Terminal,
      ["NAME", "N", "MIXED", "END"],
      rows,
    );
    assert.equal(
      table,
      [
        "NAME          N  MIXED  END",
        "a             5  x      long text",
        "long name  1000  7\n",
      ].join("\n"),
    );
  });

  it("has room for 200,000 rows, which are too many for the arguments of a call", () => {
    const rows = Array.from({ length: 200_000 }, (_, i) => [i]);
    const table = formatTable({ env: {}, isTty: false } as Terminal, ["N"], rows);
    assert.ok(table.startsWith("     N\n     0\n") && table.endsWith("\n199999\n"));
  });

  it("of the verbs has all of their summaries in one column", async () => {
    const { out } = await runVerb(["help"]);
    const listed = /^Usage: tollgate VERB …\n\n((?: {2}\S.*\n)+)/m.exec(out)?.[1] ?? "";
    const columns = listed
      .trimEnd()
      .split("\n")
      .map((line) => {
        const [, name = "", summary = ""] = / {2}(\S+(?: \S+)?) {2,}(\S.*)/.exec(line) ?? [];
        assert.notEqual(name, "", line);
        return line.lastIndexOf(summary);
      });
    assert.ok(columns.length >= 15, listed);
    assert.deepEqual([...new Set(columns)], [columns[0]], listed);
  });
});

describe("comma-separated values", () => {
  it("are no formula for a spreadsheet, and keep commas, quotes and lines", () => {
    const plain = ["a=1", 'say "a, b"', "two\nlines", 'a"b', "a,b"];
    const texts = ["=1+1", "+1", "-1", "@sum", "\t1", "\r1", ...plain];
    const rows = texts.map((text) => [text, -1]);
    assert.equal(
      formatCsv([["name", "units"], ...rows]),
      [
        "name,units",
        ...["'=1+1,-1", "'+1,-1", "'-1,-1", "'@sum,-1", "'\t1,-1", '"\'\r1",-1'],
        ...["a=1,-1", '"say ""a, b""",-1', '"two\nlines",-1'],
        ...['"a""b",-1', '"a,b",-1', ""],
      ].join("\r\n"),
    );
  });
});
