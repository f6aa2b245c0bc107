import { badge, button, el, failure, fillOnce, section, table } from "../parts/elements.js";
import { count, counted } from "../parts/format.js";
import { aWindow } from "../parts/limits.js";
import { exactly, now, time } from "../parts/times.js";
import { liftBan, lostBadge } from "./bans.js";

/**
 * Draws the windows of an account, its strikes and its ban. Draws nothing if nothing has changed, or
 * if the gateway does not answer: it rejects then, because that is told of the whole account.
 */
export async function drawUsage({ api, get, id, usage, reload }) {
  let report;
  try {
    report = await get(`/api/usage/${encodeURIComponent(id)}`);
  } catch (error) {
    if (error.status === 0) throw error;
    return fillOnce(usage, error.message, () => [failure(error)]);
  }
  usage.dataset.ban = JSON.stringify(report.ban);
  return fillOnce(usage, report, () => usageOf(report, () => liftBan(api, id, reload)));
}

function usageOf({ windows, observed = [], strikes, ban }, lift) {
  return [
    ban &&
      el(
        "p",
        { class: "banned" },
        badge("banned", "bad"),
        " ends ",
        exactly(time(ban.until)),
        ban.offences > 0 ? `, offence ${count(ban.offences)} ` : " ",
        ban.lost && [lostBadge(), " "],
        button("Lift the ban", lift),
      ),
    el("div", { class: "meters" }, ...windows.map(meterOf), ...observed.map(watchedOf)),
    el("p", { class: "hint" }, counted(strikes, "strike")),
  ];
}

function meterOf(window) {
  const { window: name, limit, used, remaining, reset, included, overage } = window;
  const share = used / limit;
  return meter(
    window,
    { title: name, "data-window": name },
    {
      "aria-label": `${count(used)} of ${count(limit)} used in this ${name}`,
      class: share >= 1 ? "full" : share >= 0.8 ? "near" : "",
    },
    el("p", { class: "hint" }, `${count(remaining)} left. Resets `, time(reset)),
    included !== undefined &&
      el("p", { class: "hint" }, `Included: ${count(included)}, overage: ${count(overage)}`),
  );
}

/** A limit that is only observed: it refuses nothing, and may be exceeded. */
function watchedOf(window) {
  const { window: name, limit, used, reset } = window;
  const label = `${count(used)} of an observed limit of ${count(limit)} ${aWindow(name)}`;
  return meter(
    window,
    { title: `${name}, observed`, "data-observed": name },
    { "aria-label": label },
    el("p", { class: "hint" }, "Refuses nothing. Resets ", time(reset)),
  );
}

/** A window with its bar, whose attributes are `bar`, and lines below it. */
function meter({ limit, used }, { title, ...attributes }, bar, ...below) {
  return el(
    "div",
    { class: "meter", ...attributes },
    el(
      "div",
      { class: "meter-head" },
      el("strong", {}, title),
      el("span", {}, `${count(used)} of ${count(limit)}`),
    ),
    el("meter", { min: 0, max: limit, value: used, ...bar }),
    ...below,
  );
}

/**
 * The bans of an account that the gateway remembers, with the refusals or the reason that caused
 * each. Also says what it does not remember: it keeps the last 1,000 bans since its start.
 */
export async function drawWhy({ get, id, why }) {
  let report;
  try {
    report = await get(`/api/bans/${encodeURIComponent(id)}`);
  } catch (error) {
    return fillOnce(why, error.message, () => [section("Recent bans", failure(error))]);
  }
  const { bans, lost } = report;
  const ban = report.ban ?? (lost ? { at: null, reason: null, strikes: [], ...lost } : null);
  const isKnown = ban === null || bans.some(({ until }) => Math.ceil(until) === ban.until);
  const remembered = bans.toReversed().map((one) => {
    // If another gateway lifted or replaced a ban, this one does not know when. One that ran to its
    // end may have ended almost a second before `until`, which is rounded up.
    return { ...one, endedEarly: one.until - 1 > now() && Math.ceil(one.until) !== ban?.until };
  });
  const all = isKnown ? remembered : [fromStore(ban), ...remembered];
  const kept = bans.filter(({ imposed, observed }) => !imposed && !observed);
  const forgotten = ban === null ? 0 : ban.offences - kept.length;
  return fillOnce(why, [all, forgotten], () => [
    section(
      "Recent bans",
      bansTable(all),
      forgotten > 0 && isKnown && el("p", { class: "hint" }, forgottenText(forgotten)),
    ),
  ]);
}

function bansTable(bans) {
  const columns = [{ name: "Since" }, { name: "Ends" }, { name: "Limit" }];
  columns.push({ name: "Refusals that earned it, or why", class: "details" });
  return table({ label: "Recent bans", columns, rows: bans.map(banRow), empty: NO_BANS });
}

const NO_BANS =
  "This gateway remembers no ban of the account: those before its start, and those that other gateways told, are in the logs.";

/** The ban in force, with what the store knows about its cause, which is nothing if it does not have it. */
function fromStore({ at, until, imposed, reason, strikes }) {
  return { at, until, imposed, strikes, ...(reason === null ? {} : { reason }) };
}

function forgottenText(bans) {
  const what = bans === 1 ? "1 earlier ban is" : `${count(bans)} earlier bans are`;
  return `${what} not remembered by this gateway: the log has their events.`;
}

function banRow({ window = "–", at, imposed, reason, strikes, ...end }) {
  return [
    at === null ? "not remembered" : time(at),
    endOf(end),
    imposed ? "–" : window,
    banReason({ imposed, reason, strikes }),
  ];
}

function endOf({ until, observed, lifted, replaced, endedEarly }) {
  if (observed) return "only observed";
  if (replaced !== undefined) return el("span", {}, "replaced ", time(replaced));
  if (lifted !== undefined) return el("span", {}, "lifted ", time(lifted));
  return endedEarly ? "ended early" : time(until);
}

function banReason({ imposed, reason, strikes }) {
  if (imposed) return `Banned by hand${reason === undefined ? "" : `: ${reason}`}`;
  if (strikes.length === 0) return "What earned it is not remembered: the log has its event.";
  return el("div", { class: "buttons" }, ...strikes.map((strike) => time(strike.at)));
}
