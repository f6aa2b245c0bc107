import { badge, el, fillOnce, heading, table, view } from "../parts/elements.js";

/** Every backend, and whether it is in service. Updates live. */
export function backendsView({ live }) {
  const content = el("div", {});
  const draw = () => {
    const { figures, state } = live;
    const isStale = state !== "live";
    const upstreams = figures?.upstreams;
    fillOnce(content, [upstreams, isStale], () => [backendsTable(upstreams, isStale)]);
  };
  draw();
  return view(
    [live.onChange(draw)],
    heading(
      "Backends",
      "A backend that is down gets requests only if no other is left, until it answers again.",
    ),
    content,
  );
}

function backendsTable(upstreams, isStale) {
  const rows = upstreams?.map(({ environment, backend, origin, up, why }) => [
    el("span", { class: "id" }, origin),
    [environment, backend].filter(Boolean).join(" "),
    isStale ? badge(`not known, was ${up ? "up" : "down"}`) : stateOf(up, why),
  ]);
  return table({
    label: "Backends",
    columns: [{ name: "Origin" }, { name: "Serves", class: "words serves" }, { name: "State" }],
    rows: rows ?? [],
    empty: rows === undefined ? "Waiting for the first figures…" : "There is no backend.",
  });
}

function stateOf(up, why) {
  return up ? badge("up", "good") : el("span", {}, badge("down", "bad"), ` ${why ?? ""}`);
}
