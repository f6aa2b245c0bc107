import { chart } from "./charts.js";
import { badge, el, fill, heading, section, table } from "./elements.js";
import { count, milliseconds, perSecond, time } from "./format.js";

const CHARTS = [
  {
    title: "Requests a second",
    show: perSecond,
    series: [
      { name: "all", colour: "accent", of: (sample) => sample.requests },
      { name: "answered 5xx", colour: "bad", of: (sample) => sample.failed },
    ],
  },
  {
    title: "Refusals a second",
    show: perSecond,
    series: [
      { name: "all", colour: "warn", of: (sample) => sample.refused },
      { name: "429", colour: "bad", of: (sample) => sample.limited },
      { name: "401, 403", colour: "muted", of: (sample) => sample.strangers },
    ],
  },
  {
    title: "Time to answer",
    show: milliseconds,
    series: [
      { name: "mean", colour: "accent", of: (sample) => sample.mean },
      { name: "95 % within", colour: "warn", of: (sample) => sample.p95 },
      { name: "99 % within", colour: "bad", of: (sample) => sample.p99 },
    ],
  },
  {
    title: "Bans",
    show: perSecond,
    series: [
      { name: "in force", colour: "accent", as: count, of: (sample) => sample.banned },
      { name: "imposed a second", colour: "bad", of: (sample) => sample.imposed },
    ],
  },
];

/** The whole gateway at a glance: numbers, plots, and what is not well. */
export function overviewView({ live }) {
  const charts = CHARTS.map((one) => chart({ ...one, live }));
  const tiles = el("dl", { class: "tiles" });
  const checks = el("div", {});
  const draw = () => {
    const { figures, samples } = live;
    if (figures === undefined) {
      fill(tiles, tile("waiting", "Waiting for the first figures", "…"));
      return;
    }
    fill(tiles, ...tilesOf(figures, samples.at(-1)));
    drawChecks(checks, figures);
    for (const one of charts) one.draw();
  };
  const end = live.onChange(draw);
  draw();
  return {
    element: el(
      "div",
      {},
      heading("Overview", "All processes of this gateway together, each second."),
      tiles,
      el("div", { class: "charts" }, ...charts.map(({ element }) => element)),
      section("Checks", checks),
    ),
    close: () => {
      end();
      for (const one of charts) one.close();
    },
  };
}

function tile(name, title, value, more) {
  return el(
    "div",
    { class: "tile", "data-tile": name },
    el("dt", {}, title),
    el("dd", {}, el("strong", {}, value), more && el("span", {}, more)),
  );
}

function tilesOf(figures, sample) {
  const { answered, ownAnswers, bans, plans } = figures;
  const sum = (numbers, from = 0) =>
    Object.entries(numbers).reduce((all, [status, value]) => all + (status >= from ? value : 0), 0);
  const total = (name) => plans.reduce((all, plan) => all + plan[name], 0);
  const since = (value) => `${count(value)} since the start`;
  return [
    tile("requests", "Requests a second", perSecond(sample?.requests), since(sum(answered))),
    tile("refused", "Refused a second", perSecond(sample?.refused), since(sum(ownAnswers, 400))),
    tile("limited", "Over quota or banned", perSecond(sample?.limited), since(total("refused"))),
    tile("failed", "Answered 5xx a second", perSecond(sample?.failed), since(sum(answered, 500))),
    tile(
      "bans",
      "Bans in force",
      count(bans.inForce),
      `${count(bans.imposed)} imposed since the start`,
    ),
    tile(
      "flight",
      "In flight",
      count(figures.inFlight),
      `${count(figures.tunnels)} of them tunnels`,
    ),
    tile(
      "charged",
      "Units charged",
      count(figures.charged),
      `${count(figures.forwards)} forwarded`,
    ),
    tile(
      "latency",
      "99 % answered within",
      milliseconds(sample?.p99),
      `mean ${milliseconds(sample?.mean)}`,
    ),
  ];
}

let shown = "";

function drawChecks(element, { checks, store, workers, logDropped, config, version }) {
  const text = JSON.stringify([checks, store.up, workers, logDropped, config, version]);
  if (text === shown && element.firstChild) return;
  shown = text;
  const rows = Object.entries(checks).map(([name, { ok, why }]) => [
    name,
    badge(ok ? "ok" : "failing", ok ? "good" : "bad"),
    why ?? "",
  ]);
  const facts = [
    `version ${version}`,
    workers && `${workers.serving} workers, ${workers.restarts} restarts`,
    logDropped > 0 && `${count(logDropped)} log lines dropped`,
  ].filter(Boolean);
  fill(
    element,
    table({
      label: "Checks",
      columns: [{ name: "Check" }, { name: "State" }, { name: "Why", class: "words" }],
      rows,
      empty: "",
    }),
    el(
      "p",
      { class: "hint" },
      `${facts.join(" · ")} · configuration in force since `,
      time(config.configuredMs / 1_000),
    ),
  );
}
