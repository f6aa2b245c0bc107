import { accountLink, badge, el, fillOnce, heading, table, view } from "../parts/elements.js";
import { count } from "../parts/format.js";
import { aWindow } from "../parts/limits.js";
import { exactly, sunsetTime, time } from "../parts/times.js";

const BAD = new Set([
  ...["ban", "key_elsewhere", "upstream_down", "store_away", "config_refused"],
  ...["keys_lost", "keys_unreadable", "keys_older", "state_file_unwritten"],
]);
const GOOD = new Set(["ban_lifted", "upstream_up", "store_back", "config_reloaded"]);
/** Members that are instants, and how each is told. */
const INSTANTS = {
  until: (instant) => ["ends ", exactly(time(instant))],
  reset: (instant) => ["resets ", exactly(time(instant))],
  sunset: (instant) => [exactly(sunsetTime(instant))],
};
/** Members that have their own place, or mean nothing to people. */
const PLACED = new Set([
  ...["number", "kind", "time", "gateway", "account", "plan", "env", "decidedAt", "strikes"],
  ...Object.keys(INSTANTS),
]);

/** The last events of this gateway, as they happen, or those of the `kind` that the URL names. */
export function eventsView({ live, kind = "" }) {
  const content = el("div", {});
  const choose = () => {
    kind = choice.value;
    const query = kind === "" ? "" : `?${new URLSearchParams({ kind })}`;
    history.replaceState(null, "", `#/events${query}`);
    draw();
  };
  const choice = el("select", { id: "kind", onchange: choose });
  const draw = () => {
    const { events, figures } = live;
    offer(choice, events, kind);
    // A gateway that was started again counts its events from 1 again.
    const shown = [events[0]?.number, events[0]?.time, figures === undefined, kind];
    fillOnce(content, shown, () => [eventsTable(live, kind)]);
  };
  draw();
  return view(
    [live.onChange(draw)],
    heading("Events", "The last 200 since the start of this gateway; all of them are in its log."),
    el("div", { class: "search" }, el("label", { for: "kind" }, "Kind"), choice),
    content,
  );
}

function eventsTable({ events, figures }, kind) {
  return table({
    label: "Events",
    columns: [{ name: "When" }, { name: "Event" }, { name: "Account" }],
    rows: events.filter((event) => kind === "" || event.kind === kind).map(rowOf),
    empty: emptyText(figures, kind),
  });
}

function emptyText(figures, kind) {
  if (figures === undefined) return "Waiting for the first figures…";
  return kind === "" ? "Nothing has happened yet." : "None of the last events is of this kind.";
}

/** Offers the kinds of events with their numbers, and the chosen kind even without events. */
function offer(choice, events, chosen) {
  const counts = new Map(chosen === "" ? [] : [[chosen, 0]]);
  for (const { kind } of events) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const kinds = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  const texts = kinds.map(([kind, number]) => `${kind.replaceAll("_", " ")} (${number})`);
  fillOnce(choice, texts, () => [
    el("option", { value: "" }, `all (${events.length})`),
    ...kinds.map(([kind], i) => el("option", { value: kind, selected: kind === chosen }, texts[i])),
  ]);
}

function rowOf(event) {
  const { number, kind, time: atMs, account, observed } = event;
  const instant = !observed && Object.keys(INSTANTS).find((name) => event[name] !== undefined);
  const details = el(
    "div",
    { class: "names" },
    wordsOf(event),
    instant && [" · ", ...INSTANTS[instant](event[instant])],
  );
  return [
    exactly(time(atMs / 1_000)),
    el("div", {}, badge(kind.replaceAll("_", " "), colourOf(event)), details),
    account === undefined ? "–" : accountLink(account, `event ${number}`),
  ];
}

function colourOf({ kind, observed }) {
  if (BAD.has(kind) && !observed) return "bad";
  return GOOD.has(kind) ? "good" : "plain";
}

function wordsOf(event) {
  const { kind, plan, env, window, percent, used, limit, key, method, route, days } = event;
  const where = [plan, env].filter(Boolean).join(" in ");
  if (kind === "quota") {
    const counts = `${count(used)} of ${count(limit)}`;
    const told = `${percent} % of the limit of`;
    const each = aWindow(window.replace(/^key\./, ""));
    if (window.startsWith("key.")) return `${told} key ${key} of ${each}: ${counts} · ${where}`;
    const whose = key === undefined ? "" : ` · key ${key}`;
    return `${told} ${each}: ${counts}${whose} · ${where}`;
  }
  if (kind === "ban") return `${causeOf(event)} · ${where}`;
  if (kind === "sunset") return `${method} ${route} · within ${days} days · ${where}`;
  if (kind === "account_changed") return [...newWindowsOf(event), where].join(" · ");
  const others = Object.entries(event).filter(([name]) => !PLACED.has(name));
  const texts = others.map(([name, value]) => `${name} ${value}`);
  return [...texts, where].filter((text) => text !== "").join(" · ");
}

/** Windows that the account had no limits of its own for before the change. */
function newWindowsOf({ newWindows = [] }) {
  return newWindows.length === 0 ? [] : [`new windows: ${newWindows.join(", ")}`];
}

/** Why an account is banned, or would be if bans were not only observed. */
function causeOf({ window, offences, imposed, reason, observed }) {
  if (imposed) return `by hand${reason === undefined ? "" : `: ${reason}`}`;
  const earned = `limit of ${aWindow(window)}, offences ${offences}`;
  return observed ? `only observed: ${earned}` : earned;
}
