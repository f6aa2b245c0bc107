import assert from "node:assert/strict";

/** One file of a recipe, and what is done to its text. `judged`: the place is the reader's choice. */
export type Step = {
  readonly file: string;
  readonly judged?: true;
  readonly change: (text: string) => string;
};

/** The recipes of CONTRIBUTING.md by name: the files that each links or names. */
export function recipesOf(page: string): ReadonlyMap<string, readonly string[]> {
  const start = page.indexOf("## Recipes");
  const section = page.slice(start, page.indexOf("\n## ", start));
  return new Map(
    section
      .split(/^\*\*/m)
      .slice(1)
      .map((text) => {
        const name = text.slice(0, text.indexOf("**"));
        const links = [...text.matchAll(/\]\(([\w./-]+)[^)]*\)/g)].map(([, file = ""]) => file);
        const names = text.includes("`src/cli/verbs/NAME.ts`") ? ["src/cli/verbs/brew.ts"] : [];
        return [name, [...links, ...names]];
      }),
  );
}

/** Puts a text ahead of the first place that fits. */
function insert(before: RegExp, text: string): Step["change"] {
  return (source) => source.replace(before, (found) => text + found);
}

/** A copy of a row that stands as `name: { … },` or `name: …,`, under another name, ahead of it. */
function copyRow(name: string, copy: string, edit: (row: string) => string = (row) => row) {
  return (source: string) => {
    const row = new RegExp(`^( *)${name}: (?:\\{$[^]*?^\\1\\}|.*),\\n`, "m").exec(source)?.[0];
    assert.ok(row !== undefined, `a row ${name}`);
    return source.replace(row, () => row + edit(row).replace(name, copy));
  };
}

const BREW = `import { EXIT_OK } from "../../server/process/process-context.ts";
import { CONFIG_IGNORED, type Verb } from "../framework/verb.ts";

export const brew: Verb = {
  name: "brew",
  usage: "",
  summary: "brews",
  options: [CONFIG_IGNORED],
  args: [],
  async run(_call, terminal) {
    terminal.out("brewed\\n");
    return EXIT_OK;
  },
};
`;

/** The steps of each recipe, for something that Tollgate does not have. */
export const STEPS: Readonly<Record<string, readonly Step[]>> = {
  "A response field of ours": [
    {
      file: "src/core/http/gateway-fields.ts",
      change: insert(
        /^ *\{ name: "X-Request-Id"/m,
        '  { name: "X-API-Version", value: () => "7" },\n',
      ),
    },
  ],
  "A window": [
    {
      file: "src/core/quota/windows.ts",
      change: insert(
        /^ *\{ name: "month"/m,
        '  { name: "fortnight", letter: "f", lengthMs: 14 * DAY_MS, alignMs: 4 * DAY_MS, begins: "" },\n',
      ),
    },
  ],
  "A refusal": [
    {
      file: "src/core/refusal-table.ts",
      change: copyRow("address_refused", "tea_time", (row) => row.replace("403", "418")),
    },
    {
      file: "src/core/keys/key.ts",
      judged: true,
      change: insert(
        /^.*refuse\("key_invalid", "another prefix/m,
        '  if (token.startsWith("pets_tea_")) return refuse("tea_time", "a pot");\n',
      ),
    },
  ],
  "A verb": [
    { file: "src/cli/verbs/brew.ts", change: () => BREW },
    {
      file: "src/cli/verb-table.ts",
      change: copyRow("init", "brew", (row) => row.replaceAll("init", "brew")),
    },
  ],
  "A metric": [
    {
      file: "src/telemetry/metrics/metrics.ts",
      change: copyRow("store_commands_total", "kettles_total"),
    },
    {
      file: "src/telemetry/metrics/metric-readers.ts",
      change: copyRow("store_commands_total", "kettles_total", () => {
        return "    store_commands_total: one(() => 3),\n";
      }),
    },
  ],
};
