import { createHash } from "node:crypto";
import { dirname, isAbsolute, join, resolve } from "node:path";
import type { Operation } from "../core/http/route.ts";
import { checkAcross } from "./checks.ts";
import { complete } from "./complete.ts";
import type { Loaded } from "./config.ts";
import { readDescription } from "./description/openapi.ts";
import { type Draft, readDraft } from "./draft.ts";
import { Findings } from "./file/findings.ts";
import type { Mistake } from "./file/place.ts";
import type { Variables } from "./file/substitute.ts";
import { type ReadText, readTextFile } from "./file/text-file.ts";
import { readTree } from "./file/tree.ts";
import { readPems } from "./pem.ts";
import { warnOfUnhonoured } from "./unhonoured.ts";

const CONFIG_BYTES_MAX = 1024 ** 2;
const CONFIG_VALUES_MAX = 100_000;
const DESCRIPTION_BYTES_MAX = 8 * 1024 ** 2;

/**
 * Reads the configuration and the descriptions it names. `env` is what `${NAME}` stands for. Never
 * rejects for what is in the files: every mistake of all of them comes back at once, in order of
 * place. Nothing is opened, bound or written.
 */
export async function loadConfig(file: string, env: Variables): Promise<Loaded> {
  const source = await readTextFile(file, CONFIG_BYTES_MAX);
  if (!source.ok) {
    const message = `Cannot read the configuration: ${source.why}`;
    return { ok: false, mistakes: [{ file, line: source.line, column: 1, message }] };
  }
  const options = { file, variables: env, valuesMax: CONFIG_VALUES_MAX };
  const { tree, mistakes } = readTree(source.text, options);
  if (tree === undefined) return { ok: false, mistakes };

  const findings = new Findings(file, tree);
  const draft = inDataFolder(readDraft(findings), tree.value, env.TOLLGATE_DATA);
  checkAcross(draft, findings);
  warnOfUnhonoured(findings);
  const described = await readDescriptions(draft, findings);
  const authorities = await readPems(draft, findings, dirname(resolve(file)));

  const all = [...mistakes, ...findings.mistakes, ...described.mistakes];
  if (all.length > 0) return { ok: false, mistakes: inOrder(all, file) };
  const pems = [...authorities.values()];
  const config = complete(draft, {
    file: resolve(file),
    hash: hashOf(source.text, [...described.texts, ...pems.map(({ text }) => text)]),
    operations: described.operations,
    authorities,
  });
  return {
    ok: true,
    config,
    warnings: inOrder([...findings.warnings, ...described.warnings], file),
    files: [resolve(file), ...described.files, ...pems.map(({ path }) => path)],
  };
}

/**
 * `TOLLGATE_DATA` is the folder of the defaults of `keys` and `stateFile`: an image has a volume there,
 * and its configuration may be read-only (docs/configuration.md#the-file).
 */
function inDataFolder(draft: Draft, root: unknown, folder: string | undefined): Draft {
  if (folder === undefined || folder === "") return draft;
  const named = new Set(typeof root === "object" && root !== null ? Object.keys(root) : []);
  return {
    ...draft,
    ...(named.has("keys") ? {} : { keys: resolve(folder, "keys.json") }),
    ...(named.has("stateFile") ? {} : { stateFile: resolve(folder, "state.json") }),
  };
}

type Described = {
  readonly operations: ReadonlyMap<string, readonly Operation[]>;
  readonly texts: readonly string[];
  readonly files: readonly string[];
  readonly mistakes: readonly Mistake[];
  readonly warnings: readonly Mistake[];
};

/** The descriptions of all environments; a file that several share is read once. */
async function readDescriptions(draft: Draft, findings: Findings): Promise<Described> {
  const operations = new Map<string, readonly Operation[]>();
  const sources = new Map<string, ReadText>();
  const mistakes: Mistake[] = [];
  const warnings: Mistake[] = [];
  for (const [name, { api, basePath }] of draft.environments) {
    if (api === undefined) continue;
    const file = isAbsolute(api) ? api : join(dirname(findings.file), api);
    const source = sources.get(file) ?? (await readTextFile(file, DESCRIPTION_BYTES_MAX));
    sources.set(file, source);
    if (!source.ok) {
      findings.mistake(
        ["environments", name, "api"],
        `Cannot read the API description ${findings.tree.isSubstituted(["environments", name, "api"]) ? "" : `${file} `}for ${name}: ${source.why}`,
      );
      continue;
    }
    const read = readDescription(source.text, { file, basePath: basePath ?? "/" });
    operations.set(name, read.operations);
    mistakes.push(...read.mistakes);
    // Warnings about routes mean nothing while basePath could not be read.
    if (basePath !== undefined) warnings.push(...read.warnings);
  }
  const texts = [...sources.values()].map((source) => (source.ok ? source.text : ""));
  const files = [...sources.keys()].map((file) => resolve(file));
  return { operations, texts, files, mistakes, warnings };
}

/**
 * The same exactly when file, descriptions and authorities are. What was substituted is left out:
 * the hash stands on the open /metrics, and would let a weak secret be guessed.
 */
function hashOf(text: string, beside: readonly string[]): string {
  return createHash("sha256")
    .update(JSON.stringify([text, beside]))
    .digest("hex");
}

/** The file itself first, each from top to bottom, and nothing twice. */
function inOrder(mistakes: readonly Mistake[], main: string): readonly Mistake[] {
  const unique = new Map(mistakes.map((one) => [JSON.stringify(one), one]));
  return [...unique.values()].sort((a, b) => {
    if (a.file !== b.file)
      return a.file === main ? -1 : b.file === main ? 1 : a.file < b.file ? -1 : 1;
    return a.line - b.line || a.column - b.column;
  });
}
