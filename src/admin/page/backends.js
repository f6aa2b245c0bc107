import { badge, el, fill, heading, table } from "./elements.js";

/** Every backend, and whether it is in service. Updates live. */
export function backendsView({ live }) {
  const content = el("div", {});
  const draw = () => {
    const { figures, state } = live;
    const isStale = state !== "live";
    const text = JSON.stringify([figures?.upstreams, isStale]);
    if (content.dataset.shown === text) return;
    content.dataset.shown = text;
    const rows = figures?.upstreams.map(({ environment, backend, origin, up, why }) => [
      el("span", { class: "id" }, origin),
      [environment, backend].filter(Boolean).join(" "),
      isStale ? badge(`not known, was ${up ? "up" : "down"}`) : stateOf(up, why),
    ]);
    fill(
      content,
      table({
        label: "Backends",
        columns: [{ name: "Origin" }, { name: "Serves" }, { name: "State" }],
        rows: rows ?? [],
        empty: rows === undefined ? "Waiting for the first figures…" : "There is no backend.",
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
        "Backends",
        "A backend that is down gets requests only if no other is left, until it answers again.",
      ),
      content,
    ),
    close: end,
  };
}

function stateOf(up, why) {
  return up ? badge("up", "good") : el("span", {}, badge("down", "bad"), ` ${why ?? ""}`);
}
