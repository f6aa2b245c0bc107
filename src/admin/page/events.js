import { badge, el, fill, heading, table } from "./elements.js";
import { time } from "./format.js";

const BAD = new Set(["ban", "upstream_down", "store_away", "config_refused"]);
const GOOD = new Set(["ban_lifted", "upstream_up", "store_back", "config_reloaded"]);
/** Members that have a column of their own, or say nothing to people. */
const KNOWN = new Set(["number", "kind", "time", "gateway", "account", "until", "reset", "sunset"]);
const INSTANTS = ["until", "reset", "sunset"];

/** The last events of this gateway, as they happen. */
export function eventsView({ live }) {
  const content = el("div", {});
  const draw = () => {
    const { events, figures } = live;
    const text = `${events[0]?.number} ${figures === undefined}`;
    if (content.dataset.shown === text) return;
    content.dataset.shown = text;
    fill(
      content,
      table({
        label: "Events",
        columns: [
          { name: "When" },
          { name: "Event" },
          { name: "Account", class: "wide" },
          { name: "Details", class: "details" },
        ],
        rows: events.map(rowOf),
        empty:
          figures === undefined ? "Waiting for the first figures…" : "Nothing has happened yet.",
      }),
    );
  };
  const end = live.onChange(draw);
  draw();
  return {
    element: el(
      "div",
      {},
      heading(
        "Events",
        "The last 200 since the start of this gateway; all of them are in its log.",
      ),
      content,
    ),
    close: end,
  };
}

function rowOf(event) {
  const { kind, time: atMs, account } = event;
  const details = Object.entries(event).filter(([name]) => !KNOWN.has(name));
  const texts = details.map(([name, value]) => `${name} ${value}`).join(", ");
  const instant = INSTANTS.find((name) => event[name] !== undefined);
  return [
    time(atMs / 1_000),
    badge(kind.replaceAll("_", " "), BAD.has(kind) ? "bad" : GOOD.has(kind) ? "good" : "plain"),
    account === undefined
      ? "–"
      : el("a", { class: "id", href: `#/accounts/${encodeURIComponent(account)}` }, account),
    el("span", {}, texts, instant && `, ${instant} `, instant && time(event[instant])),
  ];
}
