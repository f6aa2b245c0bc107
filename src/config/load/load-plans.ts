import { dirname, resolve } from "node:path";
import type { Config } from "../config.ts";
import { Findings } from "../file/findings.ts";
import { isYamlMap, type Mistake } from "../file/mistake.ts";
import { readReferencedFiles, type Variables } from "../file/substitute.ts";
import { readTextFile } from "../file/text-file.ts";
import { parseTree } from "../file/tree.ts";
import { buildPlans, type PlanSettings } from "./build.ts";
import { readPlansDraft } from "./draft.ts";
import { loadConfig } from "./load.ts";
import { validatePlans } from "./validate.ts";

const BYTES_MAX = 1024 ** 2;
const VALUES_MAX = 100_000;

/**
 * `config` is set if the file is a whole configuration. Otherwise the bans are those in the file.
 */
export type LoadPlansResult =
  | { readonly ok: true; readonly config: Config }
  | {
      readonly ok: true;
      readonly config?: undefined;
      readonly plans: PlanSettings;
      readonly hasBans: boolean;
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/**
 * Reads plans for a trial: a whole configuration, or a file with only `plans`, and with `bans` if
 * they are to change too.
 */
export async function loadPlans(file: string, variables: Variables): Promise<LoadPlansResult> {
  const source = await readTextFile(file, BYTES_MAX);
  if (!source.ok) {
    const message = `Cannot read the plans: ${source.why}`;
    return { ok: false, mistakes: [{ file, line: source.line, column: 1, message }] };
  }
  const { contents: files } = await readReferencedFiles(source.text, dirname(resolve(file)));
  const options = { file, variables: variables, files, valuesMax: VALUES_MAX };
  const { tree, mistakes } = parseTree(source.text, options);
  const root = tree?.value;
  if (tree === undefined || !isYamlMap(root) || "environments" in root || !("plans" in root)) {
    return loadConfig(file, variables);
  }
  const findings = new Findings(file, tree);
  const draft = readPlansDraft(findings);
  validatePlans(draft, findings);
  const all = [...mistakes, ...findings.mistakes];
  if (all.length > 0) return { ok: false, mistakes: all };
  return { ok: true, plans: buildPlans(draft), hasBans: "bans" in root };
}
