import { plansReport } from "../../config/plans-report.ts";
import { shownConfig } from "../../config/shown.ts";
import { type Answer, json, problem } from "../http/answer.ts";
import { type DescribedRow, documentOf } from "../openapi/document.ts";
import type { Call } from "./call.ts";
import { readNothing } from "./members.ts";

/** The configuration in force, by the keys of its file, every secret masked, with its hash. */
export function tellConfig({ deps }: Call): Answer {
  return json(200, shownConfig(deps.config()));
}

/** The plans in force, with the accounts on each. */
export function listPlans({ deps }: Call): Answer {
  return json(200, plansReport(deps.config(), deps.keys.records().accounts));
}

/**
 * Begins with the last events, and with the routes that there are, so that a page offers no more
 * than it can ask for.
 */
export function watch({ deps }: Call, rows: readonly DescribedRow[]): Answer {
  const routes = rows.map(({ method, template }) => `${method} ${template}`);
  return deps.events.open({ routes, happened: deps.recent.since(0) });
}

/** The description of all of this, as OpenAPI. */
export function tellApi({ deps }: Call, rows: readonly DescribedRow[]): Answer {
  const { admin } = deps.config();
  const hasToken = admin !== undefined && admin.token !== "";
  return json(200, documentOf(rows, { version: deps.version, hasToken }));
}

/** Reads the configuration again; says what is in force, or why it stays as it was. */
export async function reload({ deps, members }: Call): Promise<Answer> {
  const nothing = readNothing(members);
  if (!nothing.ok) return nothing.answer;
  const reloaded = await deps.reload();
  if (reloaded.ok) return json(200, { hash: reloaded.hash });
  const { mistakes, reasons = [], partly } = reloaded;
  if (partly) {
    const message = `The new configuration is not in force everywhere yet: ${reasons.join("; ")}`;
    return problem("reload_incomplete", message, { more: { reasons } });
  }
  if (reasons.length > 0) {
    const message = `The old configuration stays in force: ${reasons.join("; ")}`;
    return problem("reload_refused", message, { more: { reasons } });
  }
  const message = `The old configuration stays in force: the new one has ${counted(mistakes.length)}`;
  return problem("config_invalid", message, { more: { mistakes } });
}

function counted(mistakes: number): string {
  return mistakes === 1 ? "1 mistake" : `${mistakes} mistakes`;
}
