import { open, rm } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { makeFolder } from "../../base/make-folder.ts";
import { errorCode, quoteAddress, quoteValue } from "../../base/messages.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { configFileOf, DEFAULT_FILE } from "../framework/config-file.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import { CONFIG, type Invocation, JSON_FLAG, type Verb } from "../framework/verb.ts";

const UPSTREAM = "http://127.0.0.1:3000";
const KEY_PREFIX_MAX = 32;

/** Writes a minimal configuration that works, and prints the next steps. */
export const init: Verb = {
  name: "init",
  usage: "[--upstream URL] [--key-prefix TEXT] [--yes] [--config FILE] [--json]",
  summary: "write the least configuration that works in front of a backend of yours",
  options: [
    { name: "upstream", value: "URL", summary: `your backend, as an origin (${UPSTREAM})` },
    {
      name: "key-prefix",
      value: "TEXT",
      summary:
        "the first part of every key, a-z and 0-9 (the name of the folder of the file, or of the one around it if that is config)",
    },
    { name: "yes", summary: "ask nothing, take what stands in parentheses" },
    { ...CONFIG, summary: `the file to write (${DEFAULT_FILE})` },
    JSON_FLAG,
  ],
  args: [],
  example: `init --upstream ${UPSTREAM}`,
  async run(invocation, terminal) {
    const upstream = await upstreamOf(invocation, terminal);
    if (upstream === undefined) {
      const message = `Missing --upstream URL: name your backend, such as ${UPSTREAM}, or take that by --yes`;
      return fail(terminal, EXIT_USAGE, message);
    }
    const file = configFileOf(invocation);
    const keyPrefix = await keyPrefixOf(invocation, terminal, folderName(file));
    const written = await writeNew(file, configText(upstream, keyPrefix));
    if (written !== undefined) return fail(terminal, EXIT_FAILURE, written);
    const mistake = await mistakeIn(file, { upstream, keyPrefix }, terminal);
    if (mistake !== undefined) {
      await rm(file, { force: true });
      return fail(terminal, EXIT_USAGE, mistake);
    }
    if (invocation.flag("json")) return printJson(terminal, { file, upstream, keyPrefix });
    terminal.out(nextSteps(programIn(terminal.env), file, upstream));
    return EXIT_OK;
  },
};

type Answers = { readonly upstream: string; readonly keyPrefix: string };

/** `--upstream`, or the answer at a terminal; undefined if neither is there. */
async function upstreamOf(invocation: Invocation, terminal: Terminal): Promise<string | undefined> {
  const named = invocation.text("upstream");
  if (named !== undefined) return named;
  if (invocation.flag("yes")) return UPSTREAM;
  return answerTo("Your backend, as an origin", UPSTREAM, invocation, terminal);
}

/** `--key-prefix`, or the answer at a terminal, or the name of the folder. */
async function keyPrefixOf(
  invocation: Invocation,
  terminal: Terminal,
  folder: string,
): Promise<string> {
  const named = invocation.text("key-prefix");
  if (named !== undefined) return named;
  if (invocation.flag("yes")) return folder;
  const question = "The first part of your keys, so that a leaked one is recognized";
  return (await answerTo(question, folder, invocation, terminal)) ?? folder;
}

/** The answer, or `usual` if it is empty; undefined if stdin is not a terminal. */
async function answerTo(
  question: string,
  usual: string,
  invocation: Invocation,
  terminal: Terminal,
): Promise<string | undefined> {
  if (terminal.ask === undefined || invocation.flag("json")) return undefined;
  const answer = (await terminal.ask(`${question} [${usual}]: `)).trim();
  return answer === "" ? usual : answer;
}

/**
 * The name of the project's folder as the first part of keys: "myshop" for `My-Shop/config/a.yaml`.
 */
function folderName(file: string): string {
  const folder = dirname(resolve(file));
  const project = basename(folder) === "config" ? dirname(folder) : folder;
  const letters = basename(project)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, "");
  return letters === "" ? "key" : letters.slice(0, KEY_PREFIX_MAX);
}

/** Writes a new file and never replaces an existing one. Returns why nothing was written. */
async function writeNew(file: string, text: string): Promise<string | undefined> {
  try {
    await makeFolder(dirname(file));
    const created = await open(file, "wx");
    try {
      await created.writeFile(text);
    } catch (error) {
      // An incomplete or empty file on a full disk would make the next attempt fail.
      await rm(file, { force: true });
      throw error;
    } finally {
      await created.close();
    }
    return undefined;
  } catch (error) {
    const code = errorCode(error);
    return code === "EEXIST"
      ? `${file} is there already: change it, or name another file by --config`
      : `Cannot write ${file}: the system says ${code}`;
  }
}

/** The rest of the file is correct, so a mistake is in one of the answers. */
async function mistakeIn(
  file: string,
  { upstream, keyPrefix }: Answers,
  { env }: Terminal,
): Promise<string | undefined> {
  const { loadConfig } = await import("../../config/load/load.ts");
  const loaded = await loadConfig(file, env);
  if (loaded.ok) return undefined;
  const [first] = loaded.mistakes;
  const isPrefix = first?.message.startsWith("Cannot read keyPrefix ") === true;
  const option = isPrefix
    ? `${quoteValue(keyPrefix)} as --key-prefix`
    : `${quoteAddress(upstream)} as --upstream`;
  return `Cannot use ${option}: ${first?.message ?? "it is refused"}`;
}

/** YAML accepts JSON's quotes, so no part of the URL is read as syntax. */
function configText(upstream: string, keyPrefix: string): string {
  return `# Tollgate's configuration. Every key and its default: docs/configuration.md, or tollgate schema.
# tollgate check says every mistake with its line; saving this file reloads the gateway.
environments:
  production:
    listen: 127.0.0.1:8080 # where clients connect
    basePath: / # all of it is forwarded; with an api file only what it describes
    keyTag: live # the middle part of a key
    upstreams: [${JSON.stringify(upstream.replaceAll("$", "$$$$"))}]

keyPrefix: ${JSON.stringify(keyPrefix.replaceAll("$", "$$$$"))} # the first part of every key

plans: # requests of each account, in windows that are aligned to UTC
  free: { minute: 60, day: 1000 }
  pro: { minute: 300, day: 10000 }
`;
}

/** The words that start a verb again: npm says whether npx or the script of a checkout ran this one. */
function programIn(env: Terminal["env"]): string {
  if (env.npm_lifecycle_event === "tollgate") return "npm run -s tollgate --";
  return env.npm_command === "exec" ? "npx tollgate" : "tollgate";
}

function nextSteps(program: string, file: string, upstream: string): string {
  const named = file === DEFAULT_FILE ? "" : ` --config ${file}`;
  return `${file} is written: clients at http://127.0.0.1:8080 in front of ${upstream}

Next:
  ${program} keys create --env production --plan free${named}
  ${program} start${named}
`;
}
