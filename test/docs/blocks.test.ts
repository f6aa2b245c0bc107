import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, it } from "vitest";
import { parse } from "yaml";
import { parseArguments } from "../../src/cli/framework/parse.ts";
import { loadVerbs } from "../../src/cli/verb-table.ts";
import { REFUSALS } from "../../src/core/refusal-table.ts";
import { ACCESS_LOG_FIELDS } from "../../src/telemetry/log/access-log-entry.ts";
import { EVENTS } from "../../src/telemetry/log/events.ts";
import { loadFiles, told } from "../config/folder.ts";
import { each } from "../support/each.ts";
import { openAuthority } from "../support/wire/certificates.ts";
import { Desk } from "./desk.ts";
import {
  type Block,
  blocksOf,
  commandsOf,
  ROOT,
  readerPages,
  readPage,
  type TollgateCommand,
  tollgateCommand,
} from "./markdown.ts";

/** Pages whose commands and programs another test runs, in the place where the page says. */
const FOLLOWED: Readonly<Record<string, string>> = {
  "README.md": "test/readme.test.ts",
  "docs/billing.md": "test/docs/billing.test.ts",
  "docs/for-your-users.md": "test/docs/for-your-users.test.ts",
  "docs/tasks.md": "test/docs/tasks.test.ts",
  "docs/tutorials/first-429.md": "test/tutorials.test.ts",
  "docs/tutorials/language-model.md": "test/tutorials.test.ts",
  "docs/tutorials/second-gateway.md": "test/tutorials.test.ts",
  "docs/tutorials/your-backend.md": "test/tutorials.test.ts",
};

/** Commands that are read by the table of verbs and not run here, each with the reason. */
const NOT_RUN: readonly { readonly is: RegExp; readonly why: string }[] = [
  { is: /^npm ci\b/, why: "CI begins with it" },
  {
    is: /^npm pack$/,
    why: "test/docs/links.test.ts packs, test/package.release.test.ts with a build",
  },
  { is: /^npm install .*\.tgz$/, why: "test/package.release.test.ts installs it" },
  { is: /^docker /, why: "test/docker.test.ts does the steps of the image without a daemon" },
  {
    is: /tollgate (?:start|pets|demo)\b/,
    why: "runs until it is ended: the tutorials and test/cli/verbs run it",
  },
  { is: /\btollgate prove\b/, why: "takes a minute: test/cli/verbs/prove.test.ts runs it" },
  { is: /\/etc\/|\/var\/lib\//, why: "writes to places of the system, which are no test's" },
  { is: /^ssh /, why: "needs another machine" },
  {
    is: /^npm run -s (?:scale|bench)\b/,
    why: "takes minutes of a whole machine; test/bench has short runs",
  },
  {
    is: /^npm run -s mutate\b/,
    why: "takes minutes of a whole machine; test/mutate.release.test.ts has a short run",
  },
];

/** Languages of blocks, and those that say what a program prints or draw something. */
const LANGUAGES = ["sh", "console", "yaml", "json", "js", "ts", "python", "go"];
const SHOWN = ["text", "mermaid"];

const VERBS = await loadVerbs();
const PAGES = readerPages();
const BLOCKS = PAGES.flatMap(blocksOf);
const where = ({ page, line }: Block) => `${page}:${line}`;

/** The mistake in a command by the table of verbs; undefined if there is none. */
function mistakeIn(command: TollgateCommand): string | undefined {
  const isHelp = command.words[0] === "help";
  const words = isHelp ? [...command.words.slice(1), "--help"] : command.words;
  const verb = VERBS.find(({ name }) => name === words[0] || name === `${words[0]} ${words[1]}`);
  if (words.length === 1 && ["--help", "--version"].includes(words[0] ?? "")) return undefined;
  if (verb === undefined) return `there is no verb ${words.slice(0, 2).join(" ")}`;
  const parsed = parseArguments(verb, words.slice(verb.name.split(" ").length));
  return parsed.ok ? undefined : parsed.message;
}

const LEAST = {
  environments: {
    production: { listen: "127.0.0.1:0", keyTag: "live", upstreams: ["http://127.0.0.1:9"] },
  },
  plans: { free: { minute: 60, day: 1000 } },
};
const ENV = {
  REDIS_URL: "redis://127.0.0.1:6379",
  TOLLGATE_ADMIN_TOKEN: "the-token-of-the-admin-listener-0123",
  WEBHOOK_SECRET: `whsec_${Buffer.alloc(32).toString("base64")}`,
};

/** The environments of a block; `production` has what the least one has, where the block does not say. */
function environmentsOf({ environments }: Record<string, unknown>): Record<string, unknown> {
  const given = (environments ?? {}) as Record<string, Record<string, unknown>>;
  const { production } = LEAST.environments;
  return { ...given, production: { ...production, ...given.production } };
}

const AUTHORITY = openAuthority();
afterAll(() => AUTHORITY[Symbol.dispose]());

/** Every mistake that the loader finds in a block, put into the least configuration. */
async function mistakesInYaml(text: string): Promise<readonly string[]> {
  const value = parse(text) as Record<string, unknown> | null;
  if (value === null) return [];
  if ("openapi" in value) {
    const { production } = LEAST.environments;
    const environments = { production: { ...production, api: "./api.yaml" } };
    const files = { "tollgate.yaml": JSON.stringify({ ...LEAST, environments }), "api.yaml": text };
    return told(await loadFiles(files));
  }
  const whole = JSON.stringify({ ...LEAST, ...value, environments: environmentsOf(value) });
  const described = /"api":"\.\/([\w.-]+)"/.exec(whole)?.[1] ?? "api.yaml";
  const { cert, key } = AUTHORITY.issue(["DNS:api.example.com"]);
  const files = {
    "tollgate.yaml": whole.replaceAll("/etc/letsencrypt/live/api.example.com", "./tls"),
    [described]: readPage("config/pets.openapi.yaml"),
    ...{ "tls/cert.pem": cert, "tls/key.pem": key },
    ...{ "tls/fullchain.pem": cert, "tls/privkey.pem": key },
  };
  return told(await loadFiles(files, ENV));
}

/** Members of a line of the log that its table lacks, or that it always has and this line lacks. */
function strangeMembers(line: Readonly<Record<string, unknown>>): string[] {
  if (line.msg === "event") {
    const row = Object.entries(EVENTS).find(([kind]) => kind === line.kind)?.[1];
    const known: readonly string[] = [
      "level",
      "time",
      "kind",
      "gateway",
      "msg",
      ...(row?.members ?? []),
    ];
    return Object.keys(line).filter((name) => !known.includes(name));
  }
  const rows: Readonly<Record<string, { absent?: string }>> = ACCESS_LOG_FIELDS;
  return [
    ...Object.keys(line).filter((name) => rows[name] === undefined),
    ...Object.entries(rows).flatMap(([name, { absent }]) => {
      return absent === undefined && !(name in line) ? [name] : [];
    }),
  ];
}

describe("the blocks of the pages", () => {
  it("say their language, which is one that is run, checked or shown", () => {
    const known = [...LANGUAGES, ...SHOWN];
    const other = BLOCKS.filter(({ language }) => !known.includes(language));
    assert.deepEqual(other.map(where), []);
    assert.ok(BLOCKS.length > 100, `${BLOCKS.length} blocks`);
  });

  it("use verbs and options that there are", () => {
    const shell = BLOCKS.filter(({ language }) => ["sh", "console"].includes(language));
    let read = 0;
    const bad = shell.flatMap((block) => {
      return commandsOf(block).flatMap((line) => {
        const command = tollgateCommand(line.replace(/ \|\| true$/, ""));
        if (command === undefined) return [];
        read += 1;
        const mistake = mistakeIn(command);
        return mistake === undefined ? [] : [`${where(block)}: ${line}: ${mistake}`];
      });
    });
    assert.deepEqual(bad, []);
    assert.ok(read > 60, `${read} commands`);
  });

  it("and the words in the text use no verb and no option that there is not", () => {
    const names = VERBS.map(({ name }) => name);
    let read = 0;
    // The page of verbs is made from the table itself.
    const pages = PAGES.filter((page) => page !== "docs/reference/verbs.md");
    const bad = pages.flatMap((page) => {
      const text = readPage(page).replaceAll(/^```[\s\S]*?^```/gm, "");
      return [...text.matchAll(/`([^`\n]+)`/g)].flatMap(([, span = ""]) => {
        const isNamed = names.some((name) => span.startsWith(`${name} `) && span.includes("--"));
        const command = tollgateCommand(isNamed ? `tollgate ${span}` : span);
        if (command === undefined || /VERB|^(?:npx )?tollgate$|--$/.test(span)) return [];
        read += 1;
        const words = command.words.filter((word) => word !== "…");
        const mistake = mistakeIn({ ...command, words });
        // A text may leave out what the verb needs.
        return mistake === undefined || /^Missing|needs a value/.test(mistake)
          ? []
          : [`${page}: ${span}: ${mistake}`];
      });
    });
    assert.deepEqual(bad, []);
    assert.ok(read > 40, `${read} commands`);
  });

  it("with a configuration have one that is sound, added to the least where it is a part", async () => {
    const yaml = BLOCKS.filter(({ language }) => language === "yaml");
    assert.ok(yaml.length > 10, `${yaml.length} blocks`);
    const bad: string[] = [];
    for (const block of yaml) {
      bad.push(...(await mistakesInYaml(block.text)).map((one) => `${where(block)}: ${one}`));
    }
    assert.deepEqual(bad, []);
  });

  it("with lines of the log have members that the tables of the log have", () => {
    const lines = BLOCKS.filter(({ language }) => language === "json").map((block) => {
      return [block, JSON.parse(block.text) as Record<string, unknown>] as const;
    });
    const kinds: string[] = [];
    for (const [block, line] of each(lines)) {
      if (typeof line.msg !== "string") continue;
      kinds.push(line.msg);
      assert.deepEqual(strangeMembers(line), [], where(block));
    }
    assert.deepEqual(kinds.toSorted(), ["event", "request"]);
  });

  it("with JSON can be read, and with an answer have the status of its code", () => {
    let read = 0;
    for (const block of BLOCKS) {
      if (block.language === "json") JSON.parse(block.text);
      const [, status, code] =
        /HTTP\/1\.1 (\d+) (?:(?!HTTP\/)[\s\S])*"code":"(\w+)"/.exec(block.text) ?? [];
      if (code === undefined) continue;
      read += 1;
      const row = Object.entries(REFUSALS).find(([name]) => name === code)?.[1];
      assert.equal(String(row?.status), status, where(block));
    }
    assert.ok(read >= 3, `${read} answers`);
  });

  it("with a program are on pages that another test follows", () => {
    const programs = BLOCKS.filter(({ language }) =>
      ["js", "ts", "python", "go"].includes(language),
    );
    assert.ok(programs.length >= 6, `${programs.length} programs`);
    assert.deepEqual(programs.filter(({ page }) => FOLLOWED[page] === undefined).map(where), []);
  });

  it("have no command that is left out for a reason that fits none", () => {
    const lines = BLOCKS.filter(({ language }) => language === "sh" || language === "console");
    const all = lines.flatMap(commandsOf);
    const idle = NOT_RUN.filter(({ is }) => !all.some((line) => is.test(line)));
    assert.deepEqual(
      idle.map(({ why }) => why),
      [],
    );
  });

  it("that are shown as a console have a reason why they are not run", () => {
    const lines = BLOCKS.filter(({ language }) => language === "console").flatMap(commandsOf);
    assert.deepEqual(
      lines.filter((line) => !NOT_RUN.some(({ is }) => is.test(line))),
      [],
    );
  });

  it("that another test follows are on pages that it names", () => {
    for (const [page, test] of Object.entries(FOLLOWED)) {
      assert.ok(existsSync(join(ROOT, page)), page);
      const text = readFileSync(join(ROOT, test), "utf8");
      const name = page.split("/").at(-1) ?? page;
      assert.ok(text.includes(name), `${test} names ${name}`);
    }
  });
});

describe("the commands of a page, in its order, at the desk of an operator", () => {
  const pages = PAGES.filter((page) => {
    return FOLLOWED[page] === undefined && blocksOf(page).some(({ language }) => language === "sh");
  });
  for (const page of each(pages)) {
    it(page, async () => {
      await using desk = await Desk.open();
      let said = "";
      for (const block of blocksOf(page)) {
        if (block.language === "sh") {
          said = "";
          for (const line of commandsOf(block)) said += await run(desk, line, where(block));
        } else if (block.language === "text" && said !== "") {
          for (const line of block.text.trim().split("\n")) {
            assert.ok(said.includes(line), `${where(block)}: ${line}\n${said}`);
          }
          said = "";
        }
      }
    });
  }
});

/** Runs a command that is not left out, which must succeed; returns what it says. */
async function run(desk: Desk, line: string, at: string): Promise<string> {
  if (NOT_RUN.some(({ is }) => is.test(line))) return "";
  const command = tollgateCommand(line);
  const { status, out, err } = await (command === undefined
    ? desk.shell(line)
    : desk.type(command));
  assert.equal(status, 0, `${at}: ${line}\n${out}${err}`);
  return (out + err).replaceAll("\r", "");
}
