import {
  comparablePath,
  hasAllPaths,
  isTemplateUnder,
  mayBeUnder,
  type PathMatching,
  parsePattern,
} from "../../core/http/path-pattern.ts";
import { isRuleFor } from "../../core/http/route.ts";
import { WINDOW_NAMES, type WindowName } from "../../core/quota/windows.ts";
import type { Findings } from "../file/findings.ts";
import type { ConfigPath } from "../file/mistake.ts";
import { buildPlanMeters } from "../schema/meters.ts";
import { ADDRESS_WINDOWS, fitsAddresses } from "../schema/plan-windows.ts";
import type { Draft, EnvironmentDraft } from "./draft.ts";
import type { BackendDraft } from "./service-drafts.ts";
import { checkRepeats } from "./validate.ts";

/** Finds the mistakes in the services of environments, and in rules for calls without a key. */
export function validateServices(draft: Draft, findings: Findings): void {
  for (const [name, environment] of draft.environments) {
    const path = ["environments", name];
    checkUpstreams(environment, path, findings);
    checkBackends(environment, path, findings);
    checkPublicPlan(draft.plans, environment.public, [...path, "public"], findings);
    checkRoutes(environment, path, findings);
    warnOfUncounted(environment, path, findings);
    checkStanding(environment, path, findings);
  }
}

/** Whether a backend covers the whole base path, so that no path is left for the environment. */
function isCovered(environment: EnvironmentDraft): boolean {
  const { basePath, backends = [] } = environment;
  if (basePath === undefined) return false;
  return backends.some((one) => isTemplateUnder(one.path, basePath, matchingOf(environment, one)));
}

function checkUpstreams(
  environment: EnvironmentDraft,
  start: ConfigPath,
  findings: Findings,
): void {
  const path = [...start, "upstreams"];
  if (environment.upstreams !== undefined) warnOfUnreached(environment, path, findings);
  if (environment.upstreams !== undefined || environment.backends === undefined) return;
  if (findings.isGiven(path) || findings.tree.isBroken(path) || isCovered(environment)) return;
  if (!hasAllBackends(environment.backends, start, findings)) return;
  findings.wrongValue(path, "a list of origins");
}

/** With `paths: loose` the environment has other spellings of basePath than a backend that is exact. */
function warnOfUnreached(
  environment: EnvironmentDraft,
  path: ConfigPath,
  findings: Findings,
): void {
  const { basePath, backends = [], paths } = environment;
  // A backend that could not be read has left a hole in the list.
  const [owner] = backends.flatMap((one, i) => {
    const hasSpellings = paths !== "loose" || matchingOf(environment, one) === "loose";
    return hasSpellings && one.path === basePath ? [i] : [];
  });
  if (owner === undefined) return;
  findings.warning(
    path,
    `Nothing reaches upstreams of ${path.at(-2)}: backends[${owner}] has all of basePath; leave them out`,
  );
}

/** Whether every backend of the file could be read: one that could not may have any path. */
function hasAllBackends(
  backends: readonly BackendDraft[],
  start: ConfigPath,
  findings: Findings,
): boolean {
  return Object.keys(backends).length === findings.keysAt([...start, "backends"]).length;
}

/** Finds paths that would hide each other, or that a client could never reach. */
function checkBackends(environment: EnvironmentDraft, start: ConfigPath, findings: Findings): void {
  const { basePath, backends = [] } = environment;
  const seen = new Map<string, readonly number[]>();
  backends.forEach((backend, i) => {
    const { path, stripPrefix, upstreams } = backend;
    const matching = matchingOf(environment, backend);
    const here = [...start, "backends", i];
    if (basePath !== undefined && !isTemplateUnder(basePath, path, matching)) {
      findings.mistake(
        [...here, "path"],
        outsideMessage(path, [...here, "path"], [basePath, start], findings),
      );
    }
    const form = comparablePath(path, "loose");
    const alike = seen.get(form) ?? [];
    seen.set(form, [...alike, i]);
    const first = alike.find((j) => {
      const other = backends[j] as BackendDraft;
      const isLoose = matching === "loose" || matchingOf(environment, other) === "loose";
      return isLoose || other.path === path;
    });
    if (first !== undefined) {
      findings.mistake(
        [...here, "path"],
        `Cannot use the path ${findings.shown([...here, "path"], path)} twice: backends[${first}] has it; give both one entry, or paths of their own`,
      );
    }
    if (stripPrefix !== undefined && !isTemplateUnder(stripPrefix, path, matching)) {
      findings.mistake(
        [...here, "stripPrefix"],
        `Cannot strip ${findings.shown([...here, "stripPrefix"], stripPrefix)}: the path ${findings.shown([...here, "path"], path)} does not start with it; give the path, or whole leading segments of it`,
      );
    }
    checkRepeats(upstreams, [...here, "upstreams"], findings);
  });
}

function matchingOf(
  { paths: inherited }: EnvironmentDraft,
  { paths = inherited }: BackendDraft,
): PathMatching | undefined {
  return paths;
}

function checkPublicPlan(
  plans: Draft["plans"],
  name: string | undefined,
  path: ConfigPath,
  findings: Findings,
): void {
  if (plans === undefined || name === undefined) return;
  const shown = findings.shown(path, name);
  const plan = Object.hasOwn(plans, name) ? plans[name] : undefined;
  if (plan === undefined) {
    // A plan that is there and could not be read is told as that.
    if (findings.isGiven(["plans", name])) return;
    const known = findings.keysAt(["plans"]).join(", ");
    findings.mistake(path, `Cannot use the plan ${shown}: there is none; the plans are ${known}`);
    return;
  }
  if (plan === "custom" || plan.custom === true) {
    findings.mistake(
      path,
      `Cannot use the plan ${shown} for public operations: it is custom, and an address has no agreement; name a plan with windows`,
    );
    return;
  }
  const refuse = (what: string) => {
    findings.mistake(
      path,
      `Cannot use the plan ${shown} for public operations: it has ${what}, and theirs are ${ADDRESS_WINDOWS}; name another plan`,
    );
  };
  const longIn = (windows: { readonly [W in WindowName]?: unknown } = {}) =>
    WINDOW_NAMES.find((window) => windows[window] !== undefined && !fitsAddresses(window));
  const long = longIn(plan);
  if (long !== undefined) refuse(`a ${long} window`);
  const longObserved = longIn(plan.observe);
  if (longObserved !== undefined) refuse(`a ${longObserved} window to observe`);
  for (const { name: meter, limits } of buildPlanMeters(plan.meters)) {
    const longMeter = limits.find(({ window }) => !fitsAddresses(window));
    if (longMeter !== undefined) refuse(`a ${longMeter.window} window of the meter ${meter}`);
  }
}

/** The description of a service decides what its operations cost and who may call them. */
function checkRoutes(environment: EnvironmentDraft, start: ConfigPath, findings: Findings): void {
  const { api, backends = [], basePath, costs = [], publicRoutes = [] } = environment;
  const isDescribed =
    api !== undefined &&
    hasAllBackends(backends, start, findings) &&
    backends.every((backend) => backend.api !== undefined);
  const instead = { costs: "x-cost", publicRoutes: "security: []" };
  for (const [key, word] of Object.entries(instead)) {
    if (!isDescribed || !findings.isGiven([...start, key])) continue;
    findings.mistakeAtKey(
      [...start, key],
      `Cannot use ${key} beside api: the description says that; write ${word} there`,
    );
  }
  const routes = [
    ...costs.flatMap(({ match }, i) => ({ match, key: "costs" as const, place: [i, "match"] })),
    ...publicRoutes.flatMap((match, i) => ({ match, key: "publicRoutes" as const, place: [i] })),
  ];
  for (const { match, key, place } of routes) {
    const path = [...start, key, ...place];
    if (basePath !== undefined && !isTemplateUnder(basePath, match.template, environment.paths)) {
      findings.mistake(path, outsideMessage(match.template, path, [basePath, start], findings));
      continue;
    }
    const owner = isDescribed ? undefined : describedOwner(match.template, environment);
    if (owner === undefined) continue;
    const shown = findings.shown(path, `${match.method} ${match.template}`);
    const named = owner === "itself" ? start.at(-1) : `backends[${owner}]`;
    findings.warning(
      path,
      `Nothing uses ${shown} in ${key}: its path belongs to ${named}, whose description decides; write ${instead[key]} there`,
    );
  }
  if (publicRoutes.length > 0 && environment.public === undefined) {
    findings.warning(
      [...start, "publicRoutes"],
      "publicRoutes need a key all the same: the environment has public: off; name a plan there",
    );
  }
}

/** Finds entries of `costs` that no request gets to: the first one that matches counts. */
function warnOfUncounted(
  { costs = [], standing }: EnvironmentDraft,
  start: ConfigPath,
  findings: Findings,
): void {
  const rules = costs.flatMap(({ match }, i) => {
    return [{ i, ...match, segments: parsePattern(match.template) }];
  });
  rules.forEach(({ i, method, template, segments }, place) => {
    const path = [...start, "costs", i, "match"];
    const shown = findings.shown(path, `${method} ${template}`);
    const asksStanding = template === standing && (method === "GET" || method === "HEAD");
    const first = rules.slice(0, place).find((rule) => {
      return isRuleFor(rule, method) && hasAllPaths(rule.segments, segments);
    });
    if (asksStanding) {
      findings.warning(
        path,
        `Nothing uses ${shown} in costs: a request for standing costs nothing; remove it`,
      );
    } else if (first !== undefined) {
      findings.warning(
        path,
        `Nothing uses ${shown} in costs: costs[${first.i}] comes first and has all of its paths; write this entry before it, or remove it`,
      );
    }
  });
}

/**
 * The service whose description has all paths of a template: a backend by its place, or the
 * environment itself. Undefined if a service without a description may have one of them.
 */
function describedOwner(
  template: string,
  environment: EnvironmentDraft,
): number | "itself" | undefined {
  const { api, backends = [] } = environment;
  const longestFirst = backends
    .flatMap((backend, i) => ({ i, backend }))
    .sort((one, other) => other.backend.path.length - one.backend.path.length);
  for (const { i, backend } of longestFirst) {
    const matching = matchingOf(environment, backend);
    if (!mayBeUnder(backend.path, template, matching)) continue;
    if (backend.api === undefined) return undefined;
    if (isTemplateUnder(backend.path, template, matching)) return i;
  }
  return api === undefined ? undefined : "itself";
}

function checkStanding(environment: EnvironmentDraft, start: ConfigPath, findings: Findings): void {
  const { standing, basePath, paths } = environment;
  if (standing === undefined || basePath === undefined) return;
  const path = [...start, "standing"];
  if (!isTemplateUnder(basePath, standing, paths)) {
    findings.mistake(path, outsideMessage(standing, path, [basePath, start], findings));
  } else if (isTemplateUnder(standing, basePath, paths)) {
    const shown = findings.shown(path, standing);
    findings.mistake(path, `Cannot use the path ${shown}: it is basePath; choose one below it`);
  }
}

/** `path` has the value that is outside; `start` is the environment of the base path. */
function outsideMessage(
  outside: string,
  path: ConfigPath,
  [basePath, start]: readonly [string, ConfigPath],
  findings: Findings,
): string {
  const base = findings.shown([...start, "basePath"], basePath);
  return `Cannot use the path ${findings.shown(path, outside)}: it lies outside of basePath ${base}`;
}
