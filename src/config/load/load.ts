import { createHash } from "node:crypto";
import { dirname, resolve } from "node:path";
import type { LoadResult, ServiceConfig } from "../config.ts";
import { validateOwnFiles } from "../draft/check-own-files.ts";
import { type Draft, readDraft } from "../draft/draft.ts";
import { validateDraft } from "../draft/validate.ts";
import { planCostsOf, validateCosts } from "../draft/validate-costs.ts";
import { validateServices } from "../draft/validate-services.ts";
import { Findings } from "../file/findings.ts";
import type { Mistake } from "../file/mistake.ts";
import { readReferencedFiles, type Variables } from "../file/substitute.ts";
import { readTextFile, unreadIn } from "../file/text-file.ts";
import { parseTree, type Tree } from "../file/tree.ts";
import { type BuiltConfig, buildConfig } from "./build.ts";
import { readDescriptions } from "./descriptions.ts";
import { namedPemFiles, readPemFiles } from "./pem.ts";
import { resolveTelemetry } from "./telemetry.ts";

const CONFIG_BYTES_MAX = 1024 ** 2;
/** The most values of a configuration, with aliases expanded. */
export const CONFIG_VALUES_MAX = 100_000;

/**
 * Reads the configuration and the descriptions it names. `variables` has the values for `${NAME}`.
 * Never rejects because of the content of the files: all mistakes of all files are returned at
 * once, in order of place. Nothing is opened, bound or written. `forStart` also looks for mistakes
 * that a running gateway survives: it has opened its own files before.
 */
export async function loadConfig(
  file: string,
  variables: Variables,
  options: LoadOptions = {},
): Promise<LoadResult> {
  const read = await readTree(file, variables);
  if (!read.ok) return read;
  return loadTree(file, read, variables, options);
}

type LoadOptions = { readonly forStart?: boolean };

/** The values of a file with their places, and its mistakes as YAML. */
export type FileTree = {
  readonly text: string;
  readonly tree: Tree;
  readonly mistakes: readonly Mistake[];
  /** Absolute paths of the files that `${file:}` names. */
  readonly paths: readonly string[];
  /** Why one of these could not be read for now; undefined if all could be. */
  readonly unread?: string | undefined;
};

/** Reads the file as YAML. Fails if it is not that, or cannot be read, which names it by `what`. */
export async function readTree(
  file: string,
  variables: Variables,
  what = "configuration",
): Promise<({ readonly ok: true } & FileTree) | Extract<LoadResult, { ok: false }>> {
  const source = await readTextFile(file, CONFIG_BYTES_MAX);
  const itself = resolve(file);
  if (!source.ok) {
    const message = `Cannot read the ${what}: ${source.why}`;
    const mistakes = [{ file, line: source.line, column: 1, message }];
    return { ok: false, mistakes, files: [itself], unread: unreadIn([source]) };
  }
  const { text } = source;
  const named = await readReferencedFiles(text, dirname(itself));
  const valuesMax = CONFIG_VALUES_MAX;
  const options = { file, variables: variables, files: named.contents, valuesMax };
  const { tree, mistakes } = parseTree(text, options);
  const unread = unreadIn(named.contents.values());
  if (tree === undefined) return { ok: false, mistakes, files: [itself, ...named.paths], unread };
  return { ok: true, text, tree, mistakes, paths: named.paths, unread };
}

/** Loads the configuration in a tree. Relative paths in it are relative to `file`. */
export async function loadTree(
  file: string,
  { text, tree, mistakes, paths, unread }: FileTree,
  variables: Variables,
  { forStart = false }: LoadOptions = {},
): Promise<LoadResult> {
  const folder = dirname(resolve(file));
  const findings = new Findings(file, tree);
  const draft = inDataFolder(readDraft(findings), tree.value, variables.TOLLGATE_DATA);
  validateDraft(draft, findings);
  validateServices(draft, findings);
  const planCosts = planCostsOf(draft);
  validateCosts(draft, findings, planCosts);
  const telemetry = resolveTelemetry(draft, findings, variables);
  const described = await readDescriptions(draft, findings, planCosts);
  const pems = await readPemFiles(draft, findings, folder);

  const files = [resolve(file), ...paths, ...described.files];
  const pemFiles = namedPemFiles(draft, folder);
  validateOwnFiles(draft, findings, { filesRead: [...files, ...pemFiles], forStart });
  const all = [...mistakes, ...findings.mistakes, ...described.mistakes];
  if (all.length > 0) {
    return {
      ok: false,
      mistakes: inOrder(all, file),
      files: [...files, ...pemFiles],
      unread: unread ?? findings.unread,
    };
  }
  const pairs = [...pems.values()].flatMap(({ clientCertificate }) => clientCertificate ?? []);
  const authorities = [...pems.values()].flatMap(({ ca }) => ca ?? []);
  const certificates = [...authorities, ...pairs.map(({ cert }) => cert)];
  const certificateTexts = certificates.map(({ text }) => text);
  const { operations } = described;
  const built = buildConfig(draft, { folder, operations, pems, telemetry });
  const hash = hashOf(built, [text, ...described.texts, ...certificateTexts]);
  return {
    ok: true,
    config: { file: resolve(file), hash, ...built },
    warnings: inOrder([...findings.warnings, ...described.warnings], file),
    files: [...files, ...[...certificates, ...pairs.map(({ key }) => key)].map(({ path }) => path)],
  };
}

/**
 * `TOLLGATE_DATA` is the folder for the defaults of `keys` and `stateFile`: an image has a volume
 * there, and its configuration may be read-only (docs/configuration.md#the-file).
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

/**
 * Two hashes are the same exactly if file, descriptions and certificates are, and the rules for
 * requests. Other substituted values are left out, because the hash is on the open /metrics and
 * would allow guessing a weak secret.
 */
function hashOf(config: BuiltConfig, texts: readonly string[]): string {
  return createHash("sha256")
    .update(JSON.stringify([texts, rulesOf(config)]))
    .digest("hex");
}

/** The settings that decide about requests; they hold no secret. The operations are in the descriptions. */
function rulesOf({ plans, planBounds, bans, unauthenticated, environments }: BuiltConfig): unknown {
  const ofService = ({ routes, limits }: ServiceConfig) => {
    return [{ ...routes, operations: undefined }, limits];
  };
  return [
    ...[[...plans], [...planBounds], bans, unauthenticated],
    environments.map((one) => {
      const { name, publicPlan, standing, services } = one;
      return [name, publicPlan, standing, ofService(one), services.map(ofService)];
    }),
  ];
}

/** Sorts mistakes: the file itself first, each file from top to bottom, without duplicates. */
export function inOrder(mistakes: readonly Mistake[], main: string): readonly Mistake[] {
  const unique = new Map(mistakes.map((one) => [JSON.stringify(one), one]));
  return [...unique.values()].sort((a, b) => {
    if (a.file !== b.file)
      return a.file === main ? -1 : b.file === main ? 1 : a.file < b.file ? -1 : 1;
    return a.line - b.line || a.column - b.column;
  });
}
