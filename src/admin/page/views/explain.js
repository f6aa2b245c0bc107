import {
  accountLink,
  badge,
  el,
  failure,
  fill,
  heading,
  section,
  table,
  view,
} from "../parts/elements.js";
import { count } from "../parts/format.js";
import { exactly, time } from "../parts/times.js";

/**
 * Explains why a request was refused. Its ID comes from the field or from the URL of the section.
 */
export function explainView({ api, id }) {
  // What ticks is outside of the live region: a screen reader would say it each second.
  const rule = el("p", { class: "rule", role: "status" });
  const content = el("div", {});
  /** Responses may arrive out of order: only that of the last request counts. */
  let asked = 0;
  const explain = async () => {
    const wanted = input.value.trim();
    if (wanted === "") return;
    asked += 1;
    const mine = asked;
    const show = (text, ...parts) => {
      if (mine !== asked) return;
      rule.textContent = text;
      fill(content, ...parts);
    };
    try {
      const told = await api.get(`/api/explain/${encodeURIComponent(wanted)}`);
      show(`${told.rule}.`, ...explanation(told));
      if (mine !== asked || !input.isConnected) return;
      history.replaceState(null, "", `#/explain/${encodeURIComponent(wanted)}`);
    } catch (error) {
      show("", failure(error));
    }
  };
  const input = el("input", {
    type: "text",
    id: "request-id",
    value: id ?? "",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  const submit = (event) => {
    event.preventDefault();
    void explain();
  };
  const form = el(
    "form",
    { class: "search", onsubmit: submit },
    el("label", { for: "request-id" }, "Request id"),
    input,
    el("button", { type: "submit", class: "primary" }, "Explain"),
  );
  void explain();
  return view(
    [],
    heading(
      "Explain",
      "Why a request was refused. Its id is X-Request-Id of the answer, and id in the log, where the account and the time find it.",
    ),
    form,
    rule,
    content,
  );
}

function explanation(told) {
  const { passesAt, windows } = told;
  const passes =
    passesAt !== null &&
    el("p", {}, "By what was counted then, the first instant at which it passes: ", time(passesAt));
  return [
    passes,
    windows.length > 0 && section("Windows as they were", windowsTable(windows)),
    section("The request", facts(told)),
  ];
}

function windowsTable(windows) {
  return table({
    label: "Windows",
    columns: [
      { name: "Window" },
      { name: "Used", class: "number" },
      { name: "Limit", class: "number" },
      { name: "From", class: "wide" },
      { name: "Until" },
      { name: "State" },
    ],
    rows: windows.map(({ window, used, limit, from, reset, exhausted }) => [
      window,
      count(used),
      count(limit),
      time(from),
      time(reset),
      exhausted ? badge("used up", "bad") : badge("open", "good"),
    ]),
    empty: "",
  });
}

function facts({ request, status, code, account, environment, plan, key, cost, charged, ...rest }) {
  const { strikes, ban, decidedAt, decidedBy, config } = rest;
  const pairs = [
    ["request", el("code", {}, request)],
    ["answer", [status, code].filter((part) => part !== null).join(" ")],
    ["account", account && accountLink(account)],
    ["environment", environment],
    ["plan", plan],
    ["key", key],
    ["cost", cost === null ? null : `${count(cost)}, charged ${count(charged)}`],
    ["strikes", strikes],
    ["ban until", ban && exactly(time(ban.until))],
    ["decided", decidedAt && el("span", {}, time(decidedAt), decidedBy && ` by the ${decidedBy}`)],
    ["configuration", config && el("code", {}, config)],
  ];
  const told = pairs.filter(([, value]) => value !== null);
  return el(
    "dl",
    { class: "settings" },
    ...told.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );
}
