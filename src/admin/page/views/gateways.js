import { badge, el, fillOnce, heading, table, view } from "../parts/elements.js";
import { count, counted, milliseconds, perSecond } from "../parts/format.js";
import { time } from "../parts/times.js";

const KINDS = { ready: "good", "not ready": "bad", draining: "warn", silent: "bad" };

/** Every gateway that shares this gateway's store, from its own messages. Updates live. */
export function gatewaysView({ live }) {
  const content = el("div", {});
  const draw = () => {
    const { figures, state } = live;
    const isStale = state !== "live";
    fillOnce(content, [figures?.gateways, isStale], () => contentOf(figures, isStale));
  };
  draw();
  return view(
    [live.onChange(draw)],
    heading("Gateways", "All that share the store of this one, as each last told of itself."),
    content,
  );
}

function contentOf(figures, isStale) {
  if (figures === undefined) return [el("p", { class: "empty" }, "Waiting for the first figures…")];
  const { gateways } = figures;
  if (gateways === null) {
    const why = "The store does not tell which gateways there are.";
    return [el("p", { class: "empty" }, why)];
  }
  const { requests, refusals } = sums(gateways);
  const all = counted(gateways.length, "gateway");
  return [
    table({
      label: "Gateways",
      columns: [
        { name: "Gateway" },
        { name: "State" },
        { name: "Requests", class: "number" },
        { name: "Refusals", class: "number" },
        { name: "Store", class: "number wide" },
        { name: "Runs", class: "wide" },
        { name: "Started", class: "wide" },
      ],
      rows: gateways.map((gateway) => rowOf(gateway, isStale)),
      empty: "No gateway has told of itself yet.",
    }),
    el(
      "p",
      { class: "hint" },
      `${all}: ${perSecond(requests)} requests, ${perSecond(refusals)} refused`,
    ),
  ];
}

/** The rates of all gateways together, and the number of gateways that have gone silent. */
export function sums(gateways) {
  const sum = (name) => gateways.reduce((all, gateway) => all + gateway[name], 0);
  return {
    requests: sum("requestsPerSecond"),
    refusals: sum("refusalsPerSecond"),
    silent: gateways.filter(({ state }) => state === "silent").length,
  };
}

function rowOf(gateway, isStale) {
  const { name, version, config, started, storeMs, differs, self } = gateway;
  const isSilent = gateway.state === "silent";
  return [
    el(
      "div",
      {},
      el("span", { class: "id" }, name),
      self && el("div", {}, badge("this one")),
      differs.includes("config") && el("div", {}, badge("other configuration", "warn")),
      differs.includes("version") && el("div", {}, badge("other version", "warn")),
    ),
    isStale ? badge("not known") : stateOf(gateway),
    isSilent ? "–" : perSecond(gateway.requestsPerSecond),
    isSilent ? "–" : perSecond(gateway.refusalsPerSecond),
    milliseconds(storeMs),
    el(
      "div",
      {},
      version,
      " ",
      el("code", { title: `configuration ${config}` }, config.slice(0, 8)),
    ),
    time(started),
  ];
}

function stateOf({ state, why, age }) {
  const more = state === "silent" ? `no news for ${count(age)} s` : why;
  return el("div", {}, badge(state, KINDS[state]), more && el("div", { class: "names" }, more));
}
