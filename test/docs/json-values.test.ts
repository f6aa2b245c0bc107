import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { VERB_NAMES } from "../../src/cli/verb-table.ts";
import { openAudited } from "../cli/audit-kit.ts";
import { jsonOf, openFolder, runVerb } from "../cli/kit.ts";
import { readPage } from "./markdown.ts";

const SECTION =
  readPage("docs/reference/commands.md").split("## Json\n")[1]?.split("\n## ")[0] ?? "";
const ROWS = [...SECTION.matchAll(/^\| (`.*?) \| (.*) \|$/gm)].map(
  ([, verbs = "", value = ""]) => ({
    verbs: [...verbs.matchAll(/`([^`]+)`/g)].map(([, verb = ""]) => verb),
    value,
  }),
);

/** The names of all members of a value, at every depth. */
function membersOf(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  const own = Array.isArray(value) ? [] : Object.keys(value);
  return [...own, ...Object.values(value).flatMap(membersOf)];
}

/** The members that the row of a verb lacks. */
function untold(verb: string, value: unknown): string[] {
  const rows = ROWS.filter(({ verbs }) => {
    return verbs.some((one) => one === verb || one.startsWith(`${verb} `));
  });
  const text = rows.map((row) => row.value).join();
  const members = membersOf(value);
  assert.ok(members.length > 0, verb);
  return members.filter(
    (member) => !text.includes(`"${member}"`) && !text.includes(`\`${member}\``),
  );
}

describe("the table of JSON values", () => {
  it("has a row of every verb", () => {
    const told = ROWS.flatMap(({ verbs }) => verbs);
    const missing = VERB_NAMES.filter((name) => {
      return !told.some((verb) => verb === name || verb.startsWith(`${name} `));
    });
    assert.deepEqual(missing, []);
  });

  it("has every member that verbs beside a gateway print", async () => {
    await using house = await openAudited();
    const { account } = await house.issue();
    for (const [verb, more] of [
      ["accounts show", account],
      ["accounts set", "--on free --no-limits --dry-run"],
      ["accounts set", `${account} --no-limits`],
      ["bans add", `${account} --for 1h --reason abuse`],
      ["bans list", ""],
      ["bans why", account],
      ["bans lift", account],
      ["keys list", ""],
      ["usage", account],
    ] as const) {
      const args = `${verb} ${more} --json --config ${house.file}`.split(" ").filter(Boolean);
      const said = await runVerb(args);
      assert.equal(said.status, 0, `${verb}: ${said.err}`);
      assert.deepEqual(untold(verb, jsonOf(said)), [], verb);
    }
  });

  it("has every member that verbs without one print", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "tollgate.yaml");
    const config = {
      environments: {
        production: {
          ...{ listen: "127.0.0.1:0", keyTag: "live", upstreams: ["http://127.0.0.1:1"] },
          costs: [
            { match: "GET /v1/a", meters: { bytes: { hold: 0, max: 70, used: ["header a"] } } },
          ],
        },
      },
      plans: { pro: { minute: 5, meters: { bytes: { day: 4 } } } },
    };
    await writeFile(file, JSON.stringify(config));
    for (const [verb, more] of [
      ["check", file],
      ["completion", "fish"],
      ["version", ""],
    ] as const) {
      const said = await runVerb(`${verb} ${more} --json`.split(" ").filter(Boolean));
      assert.equal(said.status, 0, `${verb}: ${said.err}`);
      assert.deepEqual(untold(verb, jsonOf(said)), [], verb);
    }
  });
});
