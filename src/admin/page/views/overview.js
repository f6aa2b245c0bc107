import { chart } from "../parts/charts.js";
import {
  accountLink,
  badge,
  el,
  fill,
  fillOnce,
  heading,
  section,
  table,
  view,
} from "../parts/elements.js";
import { count, counted, milliseconds, perMinute, perSecond } from "../parts/format.js";
import { time } from "../parts/times.js";
import { sums } from "./gateways.js";

const CHARTS = [
  {
    title: "Requests per second",
    show: perSecond,
    series: [
      { name: "all", colour: "accent", of: (sample) => sample.requests },
      { name: "answered 5xx", colour: "bad", of: (sample) => sample.failed },
    ],
  },
  {
    title: "Refusals per second",
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
    title: "Bans in force, and earned per minute",
    show: count,
    isWhole: true,
    series: [
      { name: "in force", colour: "accent", of: (sample) => sample.banned },
      {
        name: "earned",
        colour: "bad",
        as: perMinute,
        of: ({ imposed }) => imposed && imposed * 60,
      },
    ],
  },
];

/** An overview of the gateway: numbers, plots, refused accounts and problems. */
export function overviewView({ live }) {
  const charts = CHARTS.map((one) => chart({ ...one, live }));
  const tiles = el("dl", { class: "tiles" });
  const checks = el("div", {});
  const refused = el("div", {});
  const draw = () => {
    const { figures, samples } = live;
    if (figures === undefined) {
      fill(tiles, tile("waiting", "Waiting for the first figures", "…"));
      return;
    }
    fill(tiles, ...sharedTiles(figures), ...tilesOf(figures, samples.at(-1)));
    fillOnce(refused, figures.refused, () => [refusedTable(figures.refused)]);
    drawChecks(checks, figures);
    for (const one of charts) one.draw();
  };
  draw();
  return view(
    [live.onChange(draw), ...charts.map(({ close }) => close)],
    heading(
      "Overview",
      "All processes of this gateway together, each second. The plots are by UTC.",
    ),
    tiles,
    el("div", { class: "charts" }, ...charts.map(({ element }) => element)),
    section("Most refused accounts", refused),
    section("Checks", checks),
  );
}

function tile(name, title, value, more) {
  return el(
    "div",
    { class: "tile", "data-tile": name },
    el("dt", {}, title),
    el("dd", {}, el("strong", {}, value), more && el("span", {}, more)),
  );
}

/** The sums over all gateways, if there are several. */
function sharedTiles({ gateways }) {
  if (gateways === null || gateways.length < 2) return [];
  const { requests, refusals, silent } = sums(gateways);
  const all = `all ${count(gateways.length)} gateways`;
  const more = silent > 0 ? `${count(silent)} without news` : "";
  return [
    tile("all-requests", `Requests a second, ${all}`, perSecond(requests), more),
    tile("all-refused", `Refused a second, ${all}`, perSecond(refusals), more),
  ];
}

function refusedTable(refused) {
  const rows = refused.map(({ account, environment, requests }) => [
    accountLink(account),
    environment,
    count(requests),
  ]);
  const columns = [{ name: "Account" }, { name: "Environment", class: "wide" }];
  columns.push({ name: "Refused in 15 min", class: "number" });
  const empty = "No request of an account was refused in the last 15 minutes.";
  return table({ label: "Most refused accounts", columns, rows, empty });
}

function tilesOf(figures, sample) {
  const { answered, ownAnswers, bans } = figures;
  const sum = (numbers, from = 0) =>
    Object.entries(numbers).reduce((all, [status, value]) => all + (status >= from ? value : 0), 0);
  const since = (value) => `${count(value)} since the start`;
  return [
    tile("requests", "Requests a second", perSecond(sample?.requests), since(sum(answered))),
    tile("refused", "Refused a second", perSecond(sample?.refused), since(sum(ownAnswers, 400))),
    tile(
      "limited",
      "Over quota or banned",
      perSecond(sample?.limited),
      since(ownAnswers[429] ?? 0),
    ),
    tile("failed", "Answered 5xx a second", perSecond(sample?.failed), since(sum(answered, 500))),
    tile(
      "bans",
      "Bans in force",
      count(bans.inForce),
      `${count(bans.imposed)} earned since the start`,
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

/** Environments that have backends, none of which is up. */
export function downEnvironments({ upstreams }) {
  const byName = Map.groupBy(upstreams, ({ environment }) => environment);
  return [...byName].filter(([, all]) => all.every(({ up }) => !up)).map(([name]) => name);
}

function drawChecks(element, figures) {
  const { checks, workers, logDropped, config, version } = figures;
  const down = downEnvironments(figures);
  const shown = [checks, workers, logDropped, config, version, down];
  fillOnce(element, shown, () => checksOf(figures, down));
}

function checksOf({ checks, workers, logDropped, config, version }, down) {
  const rows = Object.entries(checks).map(([name, { ok, why }]) => [
    name,
    badge(ok ? "ok" : "failing", ok ? "good" : "bad"),
    why ?? "",
  ]);
  rows.push(...down.map((name) => [name, badge("down", "bad"), "all of its backends are down"]));
  const facts = [
    `version ${version}`,
    workers && `${counted(workers.serving, "worker")}, ${counted(workers.restarts, "restart")}`,
    logDropped > 0 && `${counted(logDropped, "log line")} dropped`,
  ].filter(Boolean);
  return [
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
  ];
}
