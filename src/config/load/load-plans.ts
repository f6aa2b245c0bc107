import { isObject } from "../../base/is-object.ts";
import type { Config } from "../config.ts";
import { readPlansDraft } from "../draft/draft.ts";
import { validatePlans } from "../draft/validate.ts";
import { Findings } from "../file/findings.ts";
import type { Mistake } from "../file/mistake.ts";
import type { Variables } from "../file/substitute.ts";
import { buildPlans, type PlanSettings } from "./build.ts";
import { inOrder, loadTree, readTree } from "./load.ts";

/** `config` is set if the file is a whole configuration; if not, the bans are those in the file. */
export type LoadPlansResult =
  | { readonly ok: true; readonly config: Config }
  | {
      readonly ok: true;
      readonly config?: undefined;
      readonly plans: PlanSettings;
      readonly hasBans: boolean;
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/** Reads plans for a trial: a whole configuration, or `plans`, with `bans` if they change too. */
export async function loadPlans(file: string, variables: Variables): Promise<LoadPlansResult> {
  const read = await readTree(file, variables, "plans");
  if (!read.ok) return read;
  const { tree, mistakes } = read;
  const root = tree.value;
  if (!isObject(root) || "environments" in root || !("plans" in root)) {
    return loadTree(file, read, variables);
  }
  const findings = new Findings(file, tree);
  const draft = readPlansDraft(findings);
  validatePlans(draft, findings);
  const all = [...mistakes, ...findings.mistakes];
  if (all.length > 0) return { ok: false, mistakes: inOrder(all, file) };
  return { ok: true, plans: buildPlans(draft), hasBans: "bans" in root };
}
