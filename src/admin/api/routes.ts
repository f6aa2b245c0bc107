import type { AdminResponse } from "../http/response.ts";
import {
  ACCOUNT_CHANGE_BODY,
  BAN_BODY,
  FIND_BODY,
  IMPORT_BODY,
  KEY_CHANGE_BODY,
  NEW_KEYS_BODY,
  RECORD_CHANGES_BODY,
  RESET_BODY,
  ROTATION_BODY,
  SUSPENSION_BODY,
} from "../openapi/bodies.ts";
import type { RouteSpec } from "../openapi/document.ts";
import {
  listAccounts,
  resume,
  showAccount,
  suspendOne,
  updateAccount,
  updateAccountsOnPlan,
} from "./accounts.ts";
import type { ApiRequest } from "./api-request.ts";
import { addBan, explainBan, liftBan, listActiveBans } from "./bans.ts";
import { explainRequest, listDeprecations, listOpenCharges } from "./diagnostics.ts";
import {
  listGateways,
  listPlans,
  openEventStream,
  reloadConfig,
  showConfig,
  showOpenApi,
  showReload,
} from "./gateway-state.ts";
import { listHistory } from "./history.ts";
import {
  createKeys,
  findKey,
  listKeys,
  patchKey,
  refreshKeys,
  revokeOne,
  rotateOne,
  showKeys,
} from "./keys.ts";
import { exportKeys, importKeys, patchRecords, showRecordsIdentity } from "./records.ts";
import { listCounts, listUsage, resetAccount, showCounts, showUsage } from "./usage.ts";

/**
 * One route. Its contract says what is read from a request and what /api/openapi.json describes.
 */
export type ApiRoute = RouteSpec & {
  readonly run: (request: ApiRequest) => AdminResponse | Promise<AdminResponse>;
};

/** 100,000 keys. */
const IMPORT_BYTES_MAX = 64 * 1_048_576;

const KEYS: readonly ApiRoute[] = [
  row("GET /api/keys", listKeys, {
    summary: "All keys, or those of an account",
    query: ["limit", "after", "account", "order"],
    answers: ["Key"],
    needsRecords: true,
  }),
  row("POST /api/keys", createKeys, {
    summary: "Issue a key, or a list of them where count is given",
    body: NEW_KEYS_BODY,
    bodyNeeds: [["account"], ["environment", "plan"]],
    status: 201,
    answers: { oneOrMany: "IssuedKey" },
    refuses: ["conflict", "store_unavailable"],
  }),
  row("POST /api/keys/find", findKey, {
    summary: "The record of a key that the caller holds",
    body: FIND_BODY,
    answers: "Key",
    needsRecords: true,
    refuses: ["unknown_id"],
  }),
  row("POST /api/keys/refresh", refreshKeys, {
    summary: "Read the key records now: a command has changed them",
    answers: "Refreshed",
  }),
  row("GET /api/keys/export", exportKeys, {
    summary: "All accounts, then all keys, as lines of JSON; digests, never keys",
    answers: { type: "application/jsonl; charset=utf-8" },
    needsRecords: true,
  }),
  row("POST /api/keys/import", importKeys, {
    summary:
      "Take in records of an export, whose instants may be Unix seconds, or plain keys, all or none",
    body: IMPORT_BODY,
    bodyBytesMax: IMPORT_BYTES_MAX,
    answers: "Imported",
    needsRecords: true,
    refuses: ["conflict"],
  }),
  row("GET /api/records", showRecordsIdentity, {
    summary: "Which set of key records this gateway has, where, and which are damaged",
    answers: "Records",
    refuses: ["store_unavailable"],
  }),
  row("PATCH /api/records", patchRecords, {
    summary: "Change records, all or none, if each is still as it was before",
    body: RECORD_CHANGES_BODY,
    bodyBytesMax: IMPORT_BYTES_MAX,
    answers: "Changed",
    refuses: ["conflict", "store_unavailable"],
  }),
  row("GET /api/keys/:id", showKeys, {
    summary: "A key; of an account all of its keys",
    answers: { oneOrMany: "Key" },
    namesMissing: true,
    needsRecords: true,
    refuses: ["unknown_id"],
  }),
  row("PATCH /api/keys/:id", patchKey, {
    summary: "Change a key in place",
    body: KEY_CHANGE_BODY,
    answers: "Key",
    refuses: ["unknown_id", "conflict", "store_unavailable"],
  }),
  row("POST /api/keys/:id/rotate", rotateOne, {
    summary: "Put a new key in the place of one, which works on for the grace",
    body: ROTATION_BODY,
    answers: "RotatedKey",
    refuses: ["unknown_id", "conflict", "store_unavailable"],
  }),
  row("POST /api/keys/:id/revoke", revokeOne, {
    summary: "End a key; of an account every key that works",
    answers: { oneOrMany: "Key" },
    refuses: ["unknown_id", "conflict", "store_unavailable"],
  }),
];

const ACCOUNTS: readonly ApiRoute[] = [
  row("GET /api/accounts", listAccounts, {
    summary: "Accounts; X-Total-Count says how many fit",
    query: ["limit", "after", "env", "plan", "q", "order"],
    answers: ["Account"],
    needsRecords: true,
  }),
  row("PATCH /api/accounts", updateAccountsOnPlan, {
    summary: "Change all accounts on a plan",
    query: ["plan"],
    queryRequired: ["plan"],
    body: ACCOUNT_CHANGE_BODY,
    answers: "Changed",
    refuses: ["conflict", "store_unavailable"],
  }),
  row("GET /api/accounts/:id", showAccount, {
    summary: "An account",
    answers: "Account",
    needsRecords: true,
    refuses: ["unknown_id"],
  }),
  row("PATCH /api/accounts/:id", updateAccount, {
    summary: "Change plan, limits and metadata of an account, counts kept",
    body: ACCOUNT_CHANGE_BODY,
    answers: "Account",
    refuses: ["unknown_id", "conflict", "store_unavailable"],
  }),
  row("POST /api/accounts/:id/suspend", suspendOne, {
    summary: "Refuse every request of an account with 403",
    body: SUSPENSION_BODY,
    answers: "Account",
    refuses: ["unknown_id", "conflict", "store_unavailable"],
  }),
  row("POST /api/accounts/:id/resume", resume, {
    summary: "Take back a suspension",
    answers: "Account",
    refuses: ["unknown_id", "conflict", "store_unavailable"],
  }),
  row("POST /api/accounts/:id/reset", resetAccount, {
    summary: "Set windows of an account to 0: those named, or all that run",
    query: ["env"],
    body: RESET_BODY,
    answers: "Reset",
    needsRecords: true,
    refuses: ["unknown_id"],
  }),
];

const LIMITS: readonly ApiRoute[] = [
  row("GET /api/bans", listActiveBans, {
    summary: "Bans in force, the one that ends last first",
    query: ["limit", "after", "lost"],
    answers: ["Ban"],
    refuses: ["store_unavailable"],
  }),
  row("POST /api/bans", addBan, {
    summary: "Ban an account, which counts as no offence",
    body: BAN_BODY,
    status: 201,
    answers: "Ban",
    needsRecords: true,
    refuses: ["unknown_id", "conflict"],
  }),
  row("GET /api/bans/:id", explainBan, {
    summary: "Why an account is or was banned",
    query: ["env"],
    answers: "BanReasons",
    needsRecords: true,
    refuses: ["unknown_id", "plan_missing"],
  }),
  row("DELETE /api/bans/:id", liftBan, {
    summary: "End a ban",
    answers: "Lifted",
    refuses: ["unknown_id", "not_banned", "store_unavailable"],
  }),
  row("GET /api/usage", listUsage, {
    summary: "Where all accounts stand, those nearest to a limit first",
    query: ["limit", "after", "env", "plan", "over", "top"],
    answers: ["Usage"],
    needsRecords: true,
  }),
  row("GET /api/usage/:id", showUsage, {
    summary: "Where an account stands; charges nothing",
    query: ["env"],
    answers: "Usage",
    needsRecords: true,
    refuses: ["unknown_id", "plan_missing"],
  }),
  row("GET /api/counts", listCounts, {
    summary: "What the store counts of all accounts, and when it was asked, for an audit",
    query: ["limit", "after"],
    answers: ["Counts"],
    needsRecords: true,
  }),
  row("GET /api/counts/:id", showCounts, {
    summary: "What the store counts of an account, or of an address",
    query: ["env"],
    answers: "Counts",
    needsRecords: true,
    refuses: ["unknown_id", "plan_missing"],
  }),
  row("GET /api/history", listHistory, {
    summary: "What accounts used by UTC day: the last 30 days, or those of days or month",
    query: ["limit", "after", "env", "plan", "account", "days", "month"],
    answers: ["DayUsage"],
    isUncounted: true,
    needsRecords: true,
    refuses: ["unknown_id", "conflict"],
  }),
  row("GET /api/plans", listPlans, {
    summary: "The plans, their limits, and how many accounts are on each",
    answers: ["Plan"],
    needsRecords: true,
  }),
];

const RUNNING: readonly ApiRoute[] = [
  row("GET /api/explain/:request", explainRequest, {
    summary: "Why a request was refused: of the last 10,000 refusals",
    answers: "Explanation",
    refuses: ["unknown_request", "worker_unavailable"],
  }),
  row("GET /api/open", listOpenCharges, {
    summary: "Units charged for requests under way, which have no line in the log yet",
    answers: ["OpenCharge"],
    namesMissing: true,
  }),
  row("GET /api/deprecations", listDeprecations, {
    summary: "Operations that go away, and the accounts that called them",
    query: ["limit", "after"],
    answers: ["Deprecation"],
  }),
  row("GET /api/gateways", listGateways, {
    summary: "The gateways that share the store, as each last told of itself",
    query: ["limit", "after"],
    answers: ["Gateway"],
    refuses: ["store_unavailable"],
  }),
  row("GET /api/config", showConfig, {
    summary: "The configuration in force, secrets masked, with its hash",
    answers: "Config",
  }),
  row("GET /api/reload", showReload, {
    summary: "What the last reload was refused for",
    answers: "LastReload",
  }),
  row("POST /api/reload", reloadConfig, {
    summary: "Read the configuration again",
    answers: "Reloaded",
    namesMissing: false,
    refuses: ["reload_refused", "reload_incomplete", "config_invalid"],
  }),
  row("GET /api/events", (request) => openEventStream(request, API_ROUTES), {
    summary: "Figures each second and events as they happen, as server-sent events",
    answers: { type: "text/event-stream" },
    refuses: ["too_many_watchers"],
  }),
  row("GET /api/openapi.json", (request) => showOpenApi(request, API_ROUTES), {
    summary: "This description",
    answers: "Description",
  }),
];

/** All routes of /api (docs/reference/admin.md#routes). ":id" is an account or a key. */
export const API_ROUTES: readonly ApiRoute[] = [...KEYS, ...ACCOUNTS, ...LIMITS, ...RUNNING];

function row(route: string, run: ApiRoute["run"], contract: ApiRoute["contract"]): ApiRoute {
  const [method, template = ""] = route.split(" ");
  return { method: method as ApiRoute["method"], template, run, contract };
}
