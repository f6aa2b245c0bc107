import { formatHostPort, isLoopback } from "../../core/address.ts";
import { DAY_MS } from "../../core/quota/days.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { Findings } from "../file/findings.ts";
import type { ConfigPath } from "../file/mistake.ts";
import { limitsByLength } from "../schema/plan-windows.ts";
import { checkExposure } from "./check-exposure.ts";
import { checkLists } from "./check-lists.ts";
import { checkOwnFiles } from "./check-own-files.ts";
import type { Draft, EnvironmentDraft } from "./draft.ts";
import { validateListeners } from "./validate-listeners.ts";

const ADMIN_TOKEN_MIN = 32;

/**
 * Finds the mistakes that no single key shows (docs/configuration.md#across-keys). Keys that could
 * not be read are skipped.
 */
export function validateDraft(draft: Draft, findings: Findings): void {
  checkStore(draft, findings);
  checkOwnFiles(draft, findings);
  checkAdmin(draft, findings);
  checkKeys(draft, findings);
  validateListeners(draft, findings);
  checkKeyTags(draft.environments, findings);
  for (const [name, environment] of draft.environments) {
    checkRepeats(environment.hosts, ["environments", name, "hosts"], findings);
    checkRepeats(environment.upstreams, ["environments", name, "upstreams"], findings);
    checkEdges(name, environment, findings);
  }
  validatePlans(draft, findings);
  checkBans(draft, findings);
  checkEvents(draft, findings);
  warnOfShortHistory(draft, findings);
  checkExposure(draft, findings);
  checkLists(draft, findings);
}

/**
 * Finds the mistakes in plans. A longer window that allows less than a shorter one is allowed, but
 * probably unintended.
 */
export function validatePlans({ plans }: Pick<Draft, "plans">, findings: Findings): void {
  if (plans === undefined) return;
  if (findings.keysAt(["plans"]).length === 0) {
    findings.wrongValue(["plans"], "a map of at least one plan");
  }
  for (const [name, plan] of Object.entries(plans)) {
    if (typeof plan !== "object") continue;
    const limits = limitsByLength(plan);
    checkIncluded(name, plan, findings);
    warnOfUnreached(limits, ["plans", name], `plan ${name}`, findings);
  }
}

/** Warns of a limit that a longer window keeps from being reached. `limits` are by length. */
export function warnOfUnreached(
  limits: readonly Pick<Limit, "window" | "limit">[],
  path: ConfigPath,
  owner: string,
  findings: Findings,
): void {
  for (const [i, { window, limit }] of limits.entries()) {
    const shorter = limits.slice(0, i).find((one) => one.limit > limit);
    if (shorter === undefined) continue;
    findings.warning(
      [...path, window],
      `The ${shorter.window} limit of ${owner}, ${shorter.limit}, is never reached: the ${window} allows ${limit} in all; raise one or lower the other`,
    );
  }
}

/** Units in the price must be those of a window of the plan, and at most its limit. */
function checkIncluded(
  name: string,
  plan: Exclude<NonNullable<Draft["plans"]>[string], "custom">,
  findings: Findings,
): void {
  for (const { window, limit: included } of limitsByLength(plan.included)) {
    const limit = plan[window];
    const path = ["plans", name, "included", window];
    if (limit === undefined && plan.custom !== true) {
      findings.mistakeAtKey(
        path,
        `Cannot include ${included} units of a ${window}: plan ${name} has no ${window} window; give it one, or include units of another window`,
      );
    } else if (limit !== undefined && included > limit) {
      findings.mistake(
        path,
        `Cannot include ${included} units of a ${window}: its limit in plan ${name} is ${limit}; raise the limit, or include less`,
      );
    }
  }
}

/** Checks the fields that carry a key, and the patterns that tell foreign keys from Tollgate's. */
function checkKeys({ keyHeaders, foreignKeys, keyPrefix }: Draft, findings: Findings): void {
  checkRepeats(keyHeaders, ["keyHeaders"], findings);
  const prefixes = foreignKeys?.map(({ prefix }) => prefix) ?? [];
  const shown = (prefix: string) => {
    const i = prefixes.indexOf(prefix);
    return findings.shown(i === -1 ? ["keyPrefix"] : ["foreignKeys", i, "prefix"], prefix);
  };
  prefixes.forEach((prefix, i) => {
    const ours = keyPrefix === undefined ? [] : [`${keyPrefix}_`];
    const other = [...ours, ...prefixes.slice(0, i)].find((one) => {
      return one.startsWith(prefix) || prefix.startsWith(one);
    });
    if (other === undefined) return;
    findings.mistake(
      ["foreignKeys", i, "prefix"],
      `Cannot use the prefix ${findings.shown(["foreignKeys", i, "prefix"], prefix)}: a key could start with it and with ${shown(other)}; choose prefixes that tell keys apart`,
    );
  });
}

function checkStore({ store, keys, workers }: Draft, findings: Findings): void {
  if (store?.kind !== "memory") return;
  if (keys === "redis") {
    findings.mistake(
      ["keys"],
      "Cannot use keys: redis with store: memory: the records need a Redis; set store, or name a file",
    );
  }
  if (workers !== undefined && workers !== 1) {
    findings.mistake(
      ["workers"],
      `Cannot use workers: ${workers} with store: memory: processes share counters through a Redis only; set store, or workers: 1`,
    );
  }
}

/** Usage events are read from the history. */
function checkEvents({ events, history }: Draft, findings: Findings): void {
  const at = events?.kinds.indexOf("usage") ?? -1;
  const isKept = findings.isGiven(["history"]) && !findings.isOff(["history"]);
  if (at === -1 || history !== undefined || isKept) return;
  findings.mistake(
    ["events", "kinds", at],
    "Cannot send usage events without history: they are read from it; set history: 400d, or leave usage out",
  );
}

/** A month that is over reaches as far back as this while the next one lasts. */
const TWO_MONTHS_MS = 62 * DAY_MS;

/** The overage of a month is unknown as soon as one of its days is no longer kept. */
function warnOfShortHistory({ history, plans }: Draft, findings: Findings): void {
  if (history === undefined || history >= TWO_MONTHS_MS) return;
  const billed = Object.entries(plans ?? {}).find(([, plan]) => {
    return typeof plan === "object" && plan.included?.month !== undefined;
  });
  if (billed === undefined) return;
  findings.warning(
    ["history"],
    `The history is too short to bill a month of plan ${billed[0]} while the next one lasts: its first days may be gone, and then its overage is not told; set 62d or more`,
  );
}

function checkAdmin({ admin }: Draft, findings: Findings): void {
  if (admin === undefined || isLoopback(admin.listen)) return;
  if (admin.token.length >= ADMIN_TOKEN_MIN) return;
  const has = admin.token === "" ? "there is none" : "it is shorter";
  const where = findings.shown(["admin", "listen"], formatHostPort(admin.listen));
  findings.mistake(
    ["admin", "listen"],
    `Cannot open the admin listener off loopback, on ${where}, without a token of at least ${ADMIN_TOKEN_MIN} characters: ${has}; set admin.token, or listen on 127.0.0.1`,
  );
}

function checkKeyTags(
  environments: ReadonlyMap<string, EnvironmentDraft>,
  findings: Findings,
): void {
  const owners = new Map<string, string>();
  for (const [name, { keyTag }] of environments) {
    if (keyTag === undefined) continue;
    const owner = owners.get(keyTag);
    if (owner === undefined) owners.set(keyTag, name);
    else {
      const path = ["environments", name, "keyTag"];
      findings.mistake(
        path,
        `Cannot use the keyTag ${findings.shown(path, keyTag)} for ${name}: environment ${owner} has it; a key must tell where it belongs`,
      );
    }
  }
}

/** Finds values that are in a list twice. */
export function checkRepeats(
  list: readonly string[] | undefined,
  path: ConfigPath,
  findings: Findings,
): void {
  list?.forEach((value, i) => {
    if (list.indexOf(value) < i) {
      const place = String(path.at(-1));
      const shown = findings.shown([...path, i], value);
      findings.mistake([...path, i], `Cannot use ${shown} twice in ${place}; remove one`);
    }
  });
}

/** Bans that can never happen, or never grow, are allowed but probably unintended. */
function checkBans({ bans }: Draft, findings: Findings): void {
  if (bans === undefined) return;
  const { strikes, grace, within, duration, max } = bans;
  if ((strikes - 1) * grace > within) {
    findings.warning(
      ["bans"],
      `No ban can happen: ${strikes} strikes, bans.grace apart, take longer than bans.within; lower strikes or grace, or raise within`,
    );
  }
  if (duration > max) {
    findings.warning(["bans"], "Every ban lasts bans.max, as bans.duration is longer; raise max");
  }
}

/** Finds keys of one environment that contradict each other. */
function checkEdges(name: string, environment: EnvironmentDraft, findings: Findings): void {
  const { cors, upstreams, upstreamTls } = environment;
  const start = ["environments", name];
  if (cors !== undefined) checkCors([...start, "cors"], cors, findings);
  const isAsked =
    upstreamTls !== undefined && Object.values(upstreamTls).some((one) => one !== undefined);
  if (isAsked && upstreams?.every((origin) => origin.startsWith("http:"))) {
    findings.warning(
      [...start, "upstreamTls"],
      `Nothing uses environments.${name}.upstreamTls: none of its upstreams is https://`,
    );
  }
}

/** Values of CORS that contradict each other, and those that browsers read in another way. */
function checkCors(
  path: ConfigPath,
  { origins, headers, expose, credentials }: NonNullable<EnvironmentDraft["cors"]>,
  findings: Findings,
): void {
  if (origins.includes("*")) {
    if (credentials) {
      findings.mistake(
        [...path, "credentials"],
        'Cannot use credentials with origins "*": any page could act as its visitor; name the origins',
      );
    }
    if (origins.length > 1) {
      findings.mistake(
        [...path, "origins"],
        'Cannot use "*" beside other origins: it stands for all of them; keep one or the other',
      );
    }
  }
  origins.forEach((origin, i) => {
    if (origin === "*" || !origin.includes("*")) return;
    const at = [...path, "origins", i];
    findings.warning(
      at,
      `The origin "${findings.shown(at, origin)}" matches no subdomain: origins are compared whole; name each one`,
    );
  });
  for (const [key, names] of Object.entries(credentials ? { headers, expose } : {})) {
    const i = names.indexOf("*");
    if (i === -1) continue;
    findings.warning(
      [...path, key, i],
      `Browsers take "*" in ${key} for a name if credentials are allowed; name each field`,
    );
  }
}
