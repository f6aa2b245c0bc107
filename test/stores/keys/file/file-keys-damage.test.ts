import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { DamagedFileError } from "../../../../src/stores/files/damaged-file.ts";
import { exportLines } from "../../../../src/stores/keys/file/export-records.ts";
import { openFileKeyStore } from "../../../../src/stores/keys/file/file-key-store.ts";
import { record, withAccounts } from "../record.ts";

let directory: string;
let path: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tollgate-keys-"));
  path = join(directory, "keys.json");
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** The lines of the refusal, without the name of the file. */
async function refusal(text: string): Promise<string[]> {
  await writeFile(path, text);
  const error: unknown = await openFileKeyStore({ path, report: () => {}, watch: true }).then(
    () => assert.fail("it was accepted"),
    (cause: unknown) => cause,
  );
  assert.ok(error instanceof DamagedFileError, String(error));
  assert.equal(await readFile(path, "utf8"), text, "the file was touched");
  return error.message.split("\n").map((line) => line.replace(`${path}:`, ""));
}

const GOOD = `{"id":"k_1","digest":"${"a".repeat(64)}","name":"","plan":"free","environment":"production","account":"k_1","scopes":[],"limits":{},"created":"2026-01-01T00:00:00.000Z"}`;

/** The same in version 2, whose account has a record of its own. */
const LONE = GOOD.replace('"plan":"free",', "")
  .replace(',"limits":{}', "")
  .replace("{", '{"version":2,');

describe("A damaged file of keys", () => {
  it("is refused at the start, with each mistake at its place, and left as it was", async () => {
    const head = `{"version":1,"keys":[\n`;
    const cases: [text: string, ...expected: RegExp[]][] = [
      ["", /^1:1: .*the file is empty/],
      [`${head}${GOOD}`, /^2:\d+: .*ends too soon/],
      [`${head}${GOOD.slice(0, 40)}`, /^2:\d+: /],
      [`${head}${GOOD},\n]}\n`, /^3:1: .*a value was expected/],
      [
        `{"version":2,"keys":[\n${LONE}\n],"accounts":[\n]}\n`,
        /^2:\d+: Cannot use keys\[0\]\.account: there is no record of this account: k_1/,
      ],
      ["[]", /^1:1: Cannot use the file: it must be an object/],
      [
        `{"version":3,"keys":[]}`,
        /^1:12: Cannot use version: .*found 3/,
        /^1:1: Cannot use accounts/,
      ],
      [`{"version":1}`, /^1:1: Cannot use keys: it must be a list: found nothing/],
      [`{"version":1,"keys":[],"plans":1}`, /^1:32: Cannot use plans: it is unknown/],
      [`${head}7\n]}\n`, /^2:1: Cannot use keys\[0\]: it must be a record of a key/],
      [
        `${head}${GOOD.replace('"k_1"', '"k 1"').replace("aaaa", "AAAA")}\n]}\n`,
        /^2:7: Cannot use keys\[0\]\.id: .*found "k 1"/,
        /^2:22: Cannot use keys\[0\]\.digest/,
      ],
      [
        `${head}${GOOD},\n${GOOD}\n]}\n`,
        /^3:7: Cannot use keys\[1\]\.id: another key has the same id/,
        /^3:22: Cannot use keys\[1\]\.digest: another key has the same digest/,
      ],
      [
        `${head}${GOOD.replace("{}", '{"minute":0}')}\n]}\n`,
        /limits\.minute: .*1 to 1000000000000/,
      ],
      [
        `${head}${GOOD.replace("{}", '{"fortnight":1}')}\n]}\n`,
        /limits\.fortnight: it must be one of/,
      ],
      [`${head}${GOOD.replace("2026-01-01T", "2026-13-01T")}\n]}\n`, /created: there is no such/],
      [
        `${head}${GOOD.replace("2026-01-01T", "2026-01-01 ")}\n]}\n`,
        /created: it must be an instant/,
      ],
      [`${head}${GOOD.replace('"scopes":[]', '"scopes":["Beta"]')}\n]}\n`, /scopes\[0\]/],
      [`${head}${GOOD.replace('"plan"', '"secret":1,"plan"')}\n]}\n`, /secret: it is unknown/],
    ];
    for (const [text, ...expected] of cases) {
      const lines = await refusal(text);
      assert.equal(lines.length, expected.length, lines.join("\n"));
      for (const [i, each] of expected.entries()) assert.match(lines[i] ?? "", each);
    }
  });

  it("is whole again with the lines of an export in the place of its records, and forgets what they are marked with", async () => {
    const keys = ["a", "b"].map((digit) => record(`k_${digit}`, { createdMs: 5_000 }));
    const [accounts, lines] = [[], []] as [string[], string[]];
    for (const line of exportLines(withAccounts(...keys))) {
      (line.startsWith('{"record":"account"') ? accounts : lines).push(line);
    }
    const fileOf = (first = "") =>
      `{"version":2,"keys":[\n${[first, lines[1]].join(",\n")}\n],"accounts":[\n${accounts.join(",\n")}\n]}\n`;
    await refusal(fileOf(lines[0]?.replace('"record":"key"', '"record":"account"')));
    await writeFile(path, fileOf(lines[0]));
    const store = await openFileKeyStore({ path, report: () => {}, watch: true });
    assert.deepEqual(store.records(), withAccounts(...keys));
    await store.change((before) => ({
      ...{ records: { ...before, keys: before.keys.map((key) => ({ ...key, name: "x" })) } },
      result: undefined,
    }));
    assert.doesNotMatch(await readFile(path, "utf8"), /"record"/);
    await store.close();
  });
});
