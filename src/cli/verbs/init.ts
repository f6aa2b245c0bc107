import { open, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { makeFolder } from "../../base/make-folder.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { configFileOf, DEFAULT_FILE } from "../framework/config-file.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import { CONFIG, type Invocation, JSON_FLAG, type Verb } from "../framework/verb.ts";

const UPSTREAM = "http://127.0.0.1:3000";

/** Writes the least configuration that works, and says what to do next. */
export const init: Verb = {
  name: "init",
  usage: "[--upstream URL] [--yes] [--config FILE] [--json]",
  summary: "write the least configuration that works in front of a backend of yours",
  options: [
    { name: "upstream", value: "URL", summary: `your backend, as an origin (${UPSTREAM})` },
    { name: "yes", summary: "ask nothing, take what stands in parentheses" },
    { ...CONFIG, summary: `the file to write (${DEFAULT_FILE})` },
    JSON_FLAG,
  ],
  args: [],
  example: `init --upstream ${UPSTREAM}`,
  async run(call, terminal) {
    const upstream = await upstreamOf(call, terminal);
    if (upstream === undefined) {
      const message = `Missing --upstream URL: name your backend, such as ${UPSTREAM}, or take that by --yes`;
      return fail(terminal, EXIT_USAGE, message);
    }
    const file = configFileOf(call);
    const written = await writeNew(file, configText(upstream));
    if (written !== undefined) return fail(terminal, EXIT_FAILURE, written);
    const mistake = await mistakeIn(file, upstream, terminal);
    if (mistake !== undefined) {
      await rm(file, { force: true });
      return fail(terminal, EXIT_USAGE, mistake);
    }
    if (call.flag("json")) return printJson(terminal, { file, upstream });
    // npm says so of a program that it runs for npx, which is on nobody's PATH.
    const program = terminal.env.npm_command === "exec" ? "npx tollgate" : "tollgate";
    terminal.out(nextSteps(program, file, upstream));
    return EXIT_OK;
  },
};

/** Asked for at a terminal; undefined where nobody can be asked and nothing was said. */
async function upstreamOf(call: Invocation, terminal: Terminal): Promise<string | undefined> {
  const named = call.text("upstream");
  if (named !== undefined) return named;
  if (call.flag("yes")) return UPSTREAM;
  if (terminal.ask === undefined || call.flag("json")) return undefined;
  const answer = (await terminal.ask(`Your backend, as an origin [${UPSTREAM}]: `)).trim();
  return answer === "" ? UPSTREAM : answer;
}

/** Why nothing was written; a file that is there already is never replaced. */
async function writeNew(file: string, text: string): Promise<string | undefined> {
  try {
    await makeFolder(dirname(file));
    await using created = await open(file, "wx");
    try {
      await created.writeFile(text);
    } catch (error) {
      // Half a file, or an empty one on a full disk, would stand in the way of the next try.
      await rm(file, { force: true });
      throw error;
    }
    return undefined;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    return code === "EEXIST"
      ? `${file} is there already: change it, or name another file by --config`
      : `Cannot write ${file}: the system says ${code}`;
  }
}

/** The rest of the file is right: a mistake is of the upstream. */
async function mistakeIn(
  file: string,
  upstream: string,
  { env }: Terminal,
): Promise<string | undefined> {
  const { loadConfig } = await import("../../config/load/load.ts");
  const loaded = await loadConfig(file, env);
  if (loaded.ok) return undefined;
  const [first] = loaded.mistakes;
  return `Cannot use ${JSON.stringify(upstream)} as --upstream: ${first?.message ?? "it is refused"}`;
}

/** JSON's quotes are YAML's: nothing of the URL is read as anything else. */
function configText(upstream: string): string {
  return `# Tollgate's configuration. Every key and its default: docs/configuration.md, or tollgate schema.
# tollgate check says every mistake with its line; saving this file reloads the gateway.
environments:
  production:
    listen: 127.0.0.1:8080 # where clients connect
    basePath: / # all of it is forwarded; with an api file only what it describes
    keyTag: live # the middle part of a key
    upstreams: [${JSON.stringify(upstream.replaceAll("$", "$$$$"))}]

plans: # requests for each key, in windows that are aligned to UTC
  free: { minute: 60, day: 1000 }
  pro: { minute: 300, day: 10000 }
`;
}

function nextSteps(program: string, file: string, upstream: string): string {
  const named = file === DEFAULT_FILE ? "" : ` --config ${file}`;
  return `${file} is written: clients at http://127.0.0.1:8080 in front of ${upstream}

Next:
  ${program} keys create --env production --plan free${named}
  ${program} start${named}
`;
}
