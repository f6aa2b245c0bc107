import { liftBan } from "./bans.js";
import { badge, button, el, failure, fill, section, table } from "./elements.js";
import { count, time } from "./format.js";

/** Draws the windows of an account, its strikes and its ban; nothing where all is as it was. */
export async function drawUsage({ api, id, usage, reload }) {
  let report;
  try {
    report = await api.get(`/api/usage/${encodeURIComponent(id)}`);
  } catch (error) {
    delete usage.dataset.shown;
    fill(usage, failure(error));
    return;
  }
  const { windows, observed = [], strikes, ban } = report;
  const text = JSON.stringify(report);
  if (usage.dataset.shown === text && usage.firstChild) return;
  usage.dataset.shown = text;
  fill(
    usage,
    ban &&
      el(
        "p",
        { class: "banned" },
        badge("banned", "bad"),
        " ends ",
        time(ban.until),
        ban.offences > 0 ? `, offence ${count(ban.offences)} ` : " ",
        button("Lift the ban", () => liftBan(api, id, reload)),
      ),
    el("div", { class: "meters" }, ...windows.map(meterOf), ...observed.map(watchedOf)),
    el("p", { class: "hint" }, strikes === 1 ? "1 strike" : `${count(strikes)} strikes`),
  );
}

function meterOf({ window, limit, used, remaining, reset }) {
  const label = `${count(used)} of ${count(limit)} used in this ${window}`;
  const share = limit === 0 ? 0 : used / limit;
  return el(
    "div",
    { class: "meter", "data-window": window },
    el(
      "div",
      { class: "meter-head" },
      el("strong", {}, window),
      el("span", {}, `${count(used)} of ${count(limit)}`),
    ),
    el("meter", {
      min: 0,
      max: Math.max(1, limit),
      value: used,
      "aria-label": label,
      class: share >= 1 ? "full" : share >= 0.8 ? "near" : "",
    }),
    el("p", { class: "hint" }, `${count(remaining)} left, resets `, time(reset)),
  );
}

/** A limit that is only observed: it refuses nothing, and may be exceeded. */
function watchedOf({ window, limit, used, reset }) {
  return el(
    "div",
    { class: "meter", "data-observed": window },
    el(
      "div",
      { class: "meter-head" },
      el("strong", {}, `${window}, observed`),
      el("span", {}, `${count(used)} of ${count(limit)}`),
    ),
    el("meter", {
      min: 0,
      max: Math.max(1, limit),
      value: Math.min(used, limit),
      "aria-label": `${count(used)} of an observed limit of ${count(limit)} a ${window}`,
    }),
    el("p", { class: "hint" }, "refuses nothing, resets ", time(reset)),
  );
}

/** The bans of an account that the gateway remembers, with the refusals that earned each, or why. */
export async function drawWhy({ api, id, why }) {
  const { bans } = await api.get(`/api/bans/${encodeURIComponent(id)}`);
  if (bans.length === 0) return fill(why);
  const rows = bans
    .toReversed()
    .map(({ window, at, until, imposed, reason, strikes }) => [
      time(at),
      time(until),
      imposed ? "–" : window,
      imposed
        ? `Banned by hand${reason === undefined ? "" : `: ${reason}`}`
        : el("div", { class: "buttons" }, ...strikes.map((strike) => time(strike.at))),
    ]);
  const columns = [{ name: "Since" }, { name: "Ends" }, { name: "Limit" }];
  columns.push({ name: "Refusals that earned it, or why", class: "details" });
  fill(why, section("Recent bans", table({ label: "Recent bans", columns, rows, empty: "" })));
}
