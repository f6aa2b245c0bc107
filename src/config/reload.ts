import { formatHostPort, type HostPort } from "../core/address.ts";
import type { Records } from "../core/keys/records.ts";
import type { Config, ConfigChange, LoadResult } from "./config.ts";
import { endedKeys } from "./ended-keys.ts";
import { formatMistake, formatPlace, type Mistake } from "./file/mistake.ts";
import { parseRedisUrl, type StoreAddress } from "./schema/addresses.ts";
import { planChanges } from "./unserved-records.ts";

/**
 * The reasons to refuse a reload, one sentence each; empty if it may proceed
 * (docs/configuration.md#reload). A plan that working keys have cannot be removed. `records` are
 * all key records, `nowMs` is Unix milliseconds.
 */
export function reloadBlockers(change: ConfigChange, records: Records, nowMs: number): string[] {
  return [...restartChanges(change), ...planChanges(change, records, nowMs)];
}

/** A change of something that is opened at the start needs a restart. */
function restartChanges({ from, to }: ConfigChange): string[] {
  const settings = [
    changed("store", from.store.shown, to.store.shown),
    sameButSecret(from.store, to.store),
    changed("storePrefix", from.storePrefix, to.storePrefix),
    changed("keys", keysOf(from), keysOf(to)),
    changed("stateFile", from.stateFile, to.stateFile),
    changed("workers", String(from.workers), String(to.workers)),
    changed("admin.listen", listenOf(from.admin), listenOf(to.admin)),
  ];
  return [
    ...settings.filter((reason) => reason !== undefined),
    ...listenerChanges(from, to),
    ...tlsChanges(from, to),
  ];
}

const RESTART = "restart the gateway to change it";

function changed(what: string, from: string, to: string): string | undefined {
  return from === to
    ? undefined
    : `Cannot change ${what} from ${from} to ${to} by a reload: ${RESTART}`;
}

/** Why the store cannot change if only the credentials differ, which no shown address reveals. */
function sameButSecret(from: StoreAddress, to: StoreAddress): string | undefined {
  if (from.kind === "memory" || to.kind === "memory") return undefined;
  if (from.shown !== to.shown || loginOf(from.url) === loginOf(to.url)) return undefined;
  return `Cannot change the password of store ${from.shown} by a reload: ${RESTART}`;
}

function loginOf(url: string): string {
  const read = parseRedisUrl(url);
  return "value" in read ? JSON.stringify([read.value.username, read.value.password]) : "";
}

function keysOf({ keys }: Config): string {
  return keys.in === "redis" ? "redis" : keys.path;
}

function listenOf(owner: { readonly listen: HostPort } | undefined): string {
  return owner === undefined ? "off" : formatHostPort(owner.listen);
}

/** Environments may be added and removed by host names, but only on listeners that are open. */
function listenerChanges(from: Config, to: Config): string[] {
  const reasons: string[] = [];
  for (const { name, listen } of to.environments) {
    const before = from.environments.find((environment) => environment.name === name);
    if (before === undefined) {
      if (isOpen(listen, from)) continue;
      const where = formatHostPort(listen);
      reasons.push(
        `Cannot add environments.${name} by a reload: nothing listens on ${where} yet; restart the gateway`,
      );
      continue;
    }
    const reason = changed(`environments.${name}.listen`, listenOf(before), formatHostPort(listen));
    if (reason !== undefined) reasons.push(reason);
  }
  for (const { name, listen } of from.environments) {
    if (to.environments.some((environment) => environment.name === name)) continue;
    if (isOpen(listen, to)) continue;
    const where = formatHostPort(listen);
    reasons.push(
      `Cannot drop environments.${name} by a reload: its listener ${where} would stay open; restart the gateway`,
    );
  }
  return reasons;
}

/** An open listener either speaks TLS or does not. The certificate that it shows may change. */
function tlsChanges(from: Config, to: Config): string[] {
  return to.environments.flatMap(({ name, listen, tls }) => {
    const before =
      from.environments.find((one) => one.name === name) ??
      from.environments.find((one) => formatHostPort(one.listen) === formatHostPort(listen));
    if (before === undefined || (before.tls === undefined) === (tls === undefined)) return [];
    const what = tls === undefined ? "take tls from" : "give tls to";
    return [`Cannot ${what} environments.${name} by a reload: restart the gateway to change it`];
  });
}

/** Port 0 means another free port each time. */
function isOpen(listen: HostPort, { environments }: Config): boolean {
  const where = formatHostPort(listen);
  return listen.port !== 0 && environments.some((one) => formatHostPort(one.listen) === where);
}

/** The configuration that replaces the one in force, or why none does. */
export type ReloadDecision =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly Mistake[] }
  | {
      readonly ok: false;
      readonly mistakes: readonly Mistake[];
      readonly reasons: readonly string[];
      /** Why, for everybody: it quotes neither the file nor a record. */
      readonly summary: string;
    };

export type ReloadContext = {
  readonly from: Config;
  readonly records: Records;
  /** Unix milliseconds. */
  readonly nowMs: number;
};

/** Judges what was read: first its own mistakes, then changes that a reload cannot make. */
export function decideReload(
  loaded: LoadResult,
  { from, records, nowMs }: ReloadContext,
): ReloadDecision {
  if (!loaded.ok) {
    const { mistakes, unread } = loaded;
    if (unread !== undefined) {
      const why = `the configuration cannot be read yet: ${unread}`;
      return { ok: false, mistakes: [], reasons: [why], summary: "it cannot be read yet" };
    }
    return { ok: false, mistakes, reasons: [], summary: placeOf(mistakes[0]) };
  }
  const { config, warnings } = loaded;
  const change = { from, to: config };
  const reasons = reloadBlockers(change, records, nowMs);
  if (reasons.length === 0)
    return { ok: true, config, warnings: [...warnings, ...endedKeys(change, records, nowMs)] };
  const summary =
    restartChanges(change).length > 0
      ? "it needs a restart"
      : "accounts with working keys have a plan that it takes away";
  return { ok: false, mistakes: [], reasons, summary };
}

function placeOf(mistake: Mistake | undefined): string {
  return mistake === undefined ? "it has a mistake" : formatPlace(mistake);
}

/** For people: `FILE:LINE:COL: message`, or the reason. */
export function reloadErrors({
  mistakes,
  reasons,
}: Extract<ReloadDecision, { ok: false }>): readonly string[] {
  return [...mistakes.map(formatMistake), ...reasons];
}
