import { readAccounts } from "./accounts.js";
import { el, failure, fill, heading, table } from "./elements.js";
import { count, limits } from "./format.js";

/** Plans by environment: their limits, who is on them, and what they let through. */
export function plansView({ api, live }) {
  const content = el("div", {}, el("p", { class: "empty" }, "Loading…"));
  let known;
  const draw = () => known && drawPlans(content, known, live.figures);
  const load = async () => {
    try {
      const [{ plans, environments }, accounts] = await Promise.all([
        api.get("/api/config"),
        readAccounts(api),
      ]);
      known = { plans, environments: Object.keys(environments), accounts };
      draw();
    } catch (error) {
      fill(content, failure(error, load));
    }
  };
  const end = live.onChange(draw);
  void load();
  return {
    element: el(
      "div",
      {},
      heading("Plans", "Their limits, and what they decided since the start of this gateway."),
      content,
    ),
    close: end,
  };
}

function drawPlans(content, { plans, environments, accounts }, figures) {
  const rows = Object.entries(plans).flatMap(([plan, shown]) =>
    environments.map((environment) => {
      const own = accounts.filter((one) => one.plan === plan && one.environment === environment);
      const use = figures?.plans.find(
        (one) => one.plan === plan && one.environment === environment,
      );
      const { admitted = 0, refused = 0 } = use ?? {};
      return { plan, shown, environment, accounts: own.length, admitted, refused };
    }),
  );
  const text = JSON.stringify(rows);
  if (content.dataset.shown === text) return;
  content.dataset.shown = text;
  fill(
    content,
    table({
      label: "Plans",
      columns: [
        { name: "Plan" },
        { name: "Limits", class: "wide words" },
        { name: "Accounts", class: "number" },
        { name: "Admitted", class: "number" },
        { name: "Refused", class: "number" },
      ],
      rows: rows.map((row) => [
        el("div", {}, el("strong", {}, row.plan), el("div", { class: "names" }, row.environment)),
        limits(row.shown),
        count(row.accounts),
        count(row.admitted),
        count(row.refused),
      ]),
      empty: "There is no plan.",
    }),
  );
}
