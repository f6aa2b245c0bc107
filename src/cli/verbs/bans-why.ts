import type { Config } from "../../config/config.ts";
import { addressBanError } from "../../core/keys/find-records.ts";
import { EXIT_FAILURE, EXIT_OK, fail } from "../../server/process/process-context.ts";
import type { BanInForce, BanReasons, LostBan } from "../../stores/queries/ban-reasons.ts";
import type { AccountRef } from "../../stores/quotas/account-ref.ts";
import type { GatewayReport } from "../../telemetry/gateway-status.ts";
import { type BanHistory, placeOfNext } from "../../telemetry/history/ban-history.ts";
import type { BanRecord } from "../../telemetry/history/ban-records.ts";
import { type OperationResult, refused } from "../access/account-operations.ts";
import { fetchAdmin, fetchAllPages } from "../access/admin-client.ts";
import { nameOfGateway } from "../access/distinct-gateways.ts";
import { type ReachedGateway, reachGateway } from "../access/reach.ts";
import { askAccounts } from "../access/with-accounts.ts";
import { formatInstant, formatTable } from "../framework/table.ts";
import { printJson, showWait, type Terminal, WAITING_FOR_GATEWAY } from "../framework/terminal.ts";
import {
  CONFIG,
  FURTHER_ADMIN,
  type Invocation,
  JSON_FLAG,
  LOG,
  logFilesOf,
  type Verb,
} from "../framework/verb.ts";
import { loggedBans } from "../logs/logged-bans.ts";
import { readLogsShown } from "../logs/read-shown.ts";

/** `strikes` and `ban` are null if the store could not be asked; `missing` says why. */
type BanExplanation = AccountRef & {
  readonly strikes: number | null;
  readonly ban: BanInForce | null;
  /** A ban by which a gateway that was asked refuses the account; null if the store has one. */
  readonly lost: LostBan | null;
  /** Bans from events, oldest first. */
  readonly bans: readonly BanRecord[];
  /** Queries that got no answer, and lines that could not be read, in words. */
  readonly missing: readonly string[];
};

export const bansWhy: Verb = {
  name: "bans why",
  usage: "ID [--admin URL]… [--log FILE…] [--config FILE] [--json]",
  summary: "say how the bans of an account came about; ID is an account or one of its keys",
  options: [
    { ...FURTHER_ADMIN, summary: "ask the gateway at this admin listener too for earlier bans" },
    LOG,
    CONFIG,
    JSON_FLAG,
  ],
  args: ["ID"],
  more: true,
  example: "bans why a_8LwVnVUvnqzT",
  async run(invocation, terminal) {
    const reached = await reachGateway(invocation, terminal, { asksSeveral: true });
    if (typeof reached === "number") return reached;
    const told = await whyBanned(invocation, reached, terminal);
    if (!told.ok) return fail(terminal, EXIT_FAILURE, told.message);
    if (invocation.flag("json")) return printJson(terminal, told.value);
    terminal.out(whyText(told.value, terminal));
    return EXIT_OK;
  },
};

/**
 * The present ban comes from the store, so it does not matter which gateway replies. Earlier bans
 * come from `ban` events, in logs or in the memory of gateways
 * (docs/reference/commands.md#bans-why).
 */
async function whyBanned(
  invocation: Invocation,
  reached: ReachedGateway,
  terminal: Terminal,
): Promise<OperationResult<BanExplanation>> {
  const [id = ""] = invocation.args;
  const files = logFilesOf(invocation, 1);
  const { config, admins } = reached;
  const present = await askAccounts(reached, terminal, (accounts) =>
    showWait(terminal, WAITING_FOR_GATEWAY, accounts.banReasons(id)),
  );
  const logs = files.length === 0 ? undefined : await readBans(files, id, terminal);
  const owner = present.ok ? present.value : logs?.owner;
  if (!present.ok && owner === undefined) {
    const notBanned = addressBanError(id);
    return notBanned === undefined ? present : refused(notBanned);
  }
  const { account, environment } = owner as AccountRef;
  const missing: string[] = [...(logs?.damage ?? [])];
  const bans: BanRecord[] = [...(logs?.bans.of({ account, environment }) ?? [])];
  // Without logs, the gateway of the configuration is asked as well, because it may remember some.
  const lost: (LostBan | null | undefined)[] = present.ok ? [present.value.lost] : [];
  const origins = logs === undefined ? [undefined, ...admins] : admins;
  for (const origin of origins) {
    const fetched = fetchBans(config, account, origin);
    const asked = await showWait(terminal, WAITING_FOR_GATEWAY, fetched);
    if (asked.ok) {
      bans.push(...asked.value.bans);
      // A gateway of an earlier version does not tell it.
      lost.push(asked.value.lost);
    } else missing.push(`earlier bans are not known of every gateway: ${asked.message}`);
  }
  if (logs === undefined) missing.push(...(await describeUnasked(config, admins, terminal)));
  if (!present.ok) {
    missing.push(`whether it is banned now and its strikes are not known: ${present.message}`);
  }
  const { strikes = null, ban = null } = present.ok ? present.value : {};
  const last = ban === null ? lastOf(lost) : null;
  const told = { account, environment, strikes, ban, lost: last };
  return { ok: true, value: { ...told, bans: withReplaced(withoutRepeats(bans)), missing } };
}

/** The ban that ends last. */
function lastOf(lost: readonly (LostBan | null | undefined)[]): LostBan | null {
  const known = lost.filter((one) => one !== null && one !== undefined);
  return known.toSorted((a, b) => b.until - a.until)[0] ?? null;
}

/** Names the other gateways on the store, because each remembers only the bans that it told. */
async function describeUnasked(
  config: Config,
  admins: readonly string[],
  terminal: Terminal,
): Promise<string[]> {
  const fetched = fetchAllPages<GatewayReport>(config, { path: "/api/gateways" });
  const listed = await showWait(terminal, WAITING_FOR_GATEWAY, fetched);
  if (!listed.ok) return [];
  const asked = new Set<string | undefined>();
  for (const origin of admins) asked.add(await nameOfGateway(config, { origin }));
  const others = listed.value.filter(({ name, self, state }) => {
    return !self && state !== "silent" && !asked.has(name);
  });
  if (others.length === 0) return [];
  const names = others.map(({ name }) => name).join(", ");
  return [
    `bans that other gateways told are not known: ${names}; name them with --admin URL, or their logs with --log FILE`,
  ];
}

function fetchBans(config: Config, id: string, origin: string | undefined) {
  return fetchAdmin<BanReasons & { readonly bans: readonly BanRecord[] }>(config, {
    path: `/api/bans/${encodeURIComponent(id)}`,
    members: ["account", "bans"],
    ...{ id, origin },
  });
}

/** Removes repeats: an event may be in a log and in a gateway. Oldest first. */
function withoutRepeats(bans: readonly BanRecord[]): BanRecord[] {
  const early = ({ lifted, replaced }: BanRecord) => lifted ?? replaced;
  // If two tell the same ban and only one knows of its early end, that one is the last, and one that
  // knows of a lift before one that does not: a later lift is given to the next ban.
  const isLifted = ({ lifted }: BanRecord) => Number(lifted !== undefined);
  const byEnd = bans.toSorted((a, b) => {
    return isLifted(a) - isLifted(b) || (early(a) ?? 0) - (early(b) ?? 0);
  });
  const known = new Map(byEnd.map((ban) => [nameOf(ban), ban]));
  // If two begin in one second, that which ended early was the first.
  const endOf = (ban: BanRecord) => early(ban) ?? ban.until;
  return [...known.values()].sort((a, b) => a.at - b.at || endOf(a) - endOf(b));
}

/**
 * The bans, oldest first, each replaced by the next one if people imposed that, and a lift given to the
 * last ban before it, although no single gateway knows both bans, or a ban and its lift.
 */
function withReplaced(bans: readonly BanRecord[]): BanRecord[] {
  const told = [...bans];
  for (const [i, { lifted, ...ban }] of told.entries()) {
    if (ban.observed) continue;
    const place = placeOfNext(told, i);
    const next = told[place];
    // A ban in the second of a lift began after it, because instants are whole seconds.
    if (next && (lifted === undefined ? next.at < ban.until : next.at + 1 < lifted)) {
      const isReplaced = next.imposed && next.at < ban.until;
      told[i] = { ...(isReplaced && { replaced: next.at }), ...ban };
      if (lifted !== undefined) told[place] = { lifted, ...next };
    } else if (lifted !== undefined && lifted > ban.until) told[i] = ban;
  }
  return told;
}

/** All that tells a ban from another one of its account, since instants are whole seconds. */
function nameOf({ at, until, imposed, reason, strikes }: BanRecord): string {
  return JSON.stringify([at, until, imposed, reason, strikes]);
}

/** The bans in logs, and the account that an ID names in them. */
async function readBans(
  files: readonly string[],
  id: string,
  terminal: Terminal,
): Promise<{
  readonly bans: BanHistory;
  readonly owner: AccountRef | undefined;
  readonly damage: readonly string[];
}> {
  const bans = loggedBans();
  let owner: AccountRef | undefined;
  const damage = await readLogsShown(files, terminal, {
    request: ({ account, env: environment, key }) => {
      if (account === undefined || environment === undefined) return;
      if (account === id || key === id) owner = { account, environment };
    },
    event: (line) => bans.event(line),
  });
  return { bans, owner: owner ?? bans.ownerOf(id), damage };
}

function whyText({ bans, missing, ...told }: BanExplanation, terminal: Terminal): string {
  const head = `Account ${told.account} (${told.environment}): ${nowText(told)}\n`;
  const rows = bans.flatMap(({ at, window, offences, ...how }) => {
    const by =
      how.imposed === true ? byHand(how.reason) : `by the ${window} limit, offence ${offences}`;
    return [["ban", formatInstant(at), `${endText(how)}, ${by}`], ...strikeRows(how.strikes)];
  });
  const earlier =
    rows.length === 0
      ? "No event of a ban of it is remembered\n"
      : `Bans by their events:\n${formatTable(terminal, ["", "AT", "WHAT"], rows)}`;
  const struck = strikeRows(told.ban?.strikes ?? []);
  const table = struck.length === 0 ? "" : formatTable(terminal, ["", "AT", "WHAT"], struck);
  return `${head}${table}${earlier}${missing.map((one) => `Missing: ${one}\n`).join("")}`;
}

type BanEnd = Pick<BanRecord, "until" | "observed" | "lifted" | "replaced">;

function endText({ until, observed, lifted, replaced }: BanEnd) {
  if (observed === true) return "only observed";
  const end = `until ${formatInstant(until)}`;
  if (replaced !== undefined) return `${end}, but replaced ${formatInstant(replaced)}`;
  return lifted === undefined ? end : `${end}, but lifted ${formatInstant(lifted)}`;
}

function nowText(told: Pick<BanExplanation, "account" | "strikes" | "ban" | "lost">): string {
  const { account, strikes, ban, lost } = told;
  if (strikes === null) return "whether it is banned now is not known";
  const running = `running strikes: ${strikes}`;
  if (lost !== null) {
    const end = `until ${formatInstant(lost.until)}`;
    return `banned ${end} by what a gateway knows: the store does not have the ban, and \`bans lift ${account}\` ends it; ${running}`;
  }
  if (ban === null) return `not banned, ${running}`;
  const { until, offences, at, imposed, reason } = ban;
  const since = at === null ? "" : ` since ${formatInstant(at)}`;
  const earned = imposed === null ? "how is not known" : `earned, offence ${offences}`;
  const how = imposed === true ? byHand(reason ?? undefined) : earned;
  return `banned${since} until ${formatInstant(until)}, ${how}; ${running}`;
}

function byHand(reason: string | undefined): string {
  return reason === undefined ? "imposed by hand" : `imposed by hand: ${reason}`;
}

function strikeRows(strikes: readonly { readonly at: number }[]): string[][] {
  return strikes.map(({ at }) => ["strike", formatInstant(at), ""]);
}
