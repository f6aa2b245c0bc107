import { addressBanError } from "../../core/keys/find-records.ts";
import { bansReport, findUsageSubject, sortBans } from "../../core/keys/usage-reports.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
import { activeBans, findBanned } from "../../stores/queries/active-bans.ts";
import { readBanReasons } from "../../stores/queries/ban-reasons.ts";
import { imposedBan, logBanByHand, notBannedMessage } from "../../stores/queries/imposed-ban.ts";
import { usageOf } from "../../stores/queries/read-usage.ts";
import { type AdminResponse, jsonResponse, problemResponse } from "../http/response.ts";
import { type ApiRequest, recordsUnknown, unknownIdResponse } from "./api-request.ts";
import { pageResponse, rankedId } from "./pagination.ts";
import { fromReachableStore, whenSaved } from "./reachable-store.ts";
import { parseBanRequest } from "./request-bodies.ts";
import { withReport } from "./usage.ts";

/** Every ban in force, in the shape of `bans list --json`. */
export async function listActiveBans({ deps, query }: ApiRequest): Promise<AdminResponse> {
  const lost = query.get("lost");
  if (lost !== null && lost !== "true") return problemResponse("bad_request", "lost must be true");
  return fromReachableStore(deps, async (onMissing) => {
    const active = await activeBans(deps.quotas, deps.config(), onMissing);
    const wanted = lost === null ? active : active.filter(({ isLost }) => isLost);
    const named = sortBans(wanted).map((one) => {
      return { id: rankedId(-one.ban.untilMs, `${one.account} ${one.environment}`), one };
    });
    return pageResponse(named, { path: "/api/bans", query }, (page) =>
      bansReport(page.map(({ one }) => one)),
    );
  });
}

/** Explains why an account is banned now (from the store) and was banned before (from events). */
export function explainBan(request: ApiRequest): Promise<AdminResponse> {
  const { quotas, config, recent } = request.deps;
  return withReport(request, async (subject) => {
    const report = await usageOf(quotas, config(), subject);
    return report && { ...(await readBanReasons(quotas, report)), bans: recent.bansOf(report) };
  });
}

/** Bans an account for a given time. Such a ban does not count as an offence. */
export async function addBan({ deps, body }: ApiRequest): Promise<AdminResponse> {
  const wanted = parseBanRequest(body);
  if (!wanted.ok) return wanted.response;
  const { id, lengthMs, reason } = wanted.value;
  const subject = findUsageSubject(deps.keys.records(), id);
  if (subject === undefined) return notBannable(id, deps);
  const imposed = imposedBan(deps.config(), subject, { lengthMs, reason });
  if (typeof imposed === "string") return problemResponse("conflict", imposed);
  const { account, environment } = subject;
  const accountRef = { account, environment };
  return fromReachableStore(deps, async (onMissing) => {
    const { untilMs, offences } = await deps.quotas.ban(accountRef, imposed, onMissing);
    const known = { ...imposed, untilMs, offences };
    logBanByHand(deps.log, { accountRef, atMs: untilMs - lengthMs, imposed: known });
    const until = roundUpToSeconds(untilMs);
    return whenSaved(deps, jsonResponse(201, { account, environment, until, offences }));
  });
}

/** Lifts a ban, also of an account that has no keys any more. */
export async function liftBan({ deps, id }: ApiRequest): Promise<AdminResponse> {
  return fromReachableStore(deps, async (onMissing) => {
    const name = await findBanned(deps.quotas, deps.keys.records(), id);
    if (name === undefined) return recordsUnknown(deps) ?? notBannable(id, deps);
    const { account, environment } = name;
    const accountRef = { account, environment };
    const lost = deps.quotas.knownBan(accountRef);
    const lifted = await deps.quotas.liftBan(accountRef, onMissing);
    if (!lifted && lost === undefined) {
      return problemResponse("not_banned", notBannedMessage(deps.config(), account));
    }
    logBanByHand(deps.log, { accountRef, atMs: deps.now(), imposed: undefined });
    return whenSaved(deps, jsonResponse(200, { account, environment, lifted: true }));
  });
}

function notBannable(id: string, deps: ApiRequest["deps"]): AdminResponse {
  const notBanned = addressBanError(id);
  return notBanned ? problemResponse("unknown_id", notBanned) : unknownIdResponse(deps);
}
