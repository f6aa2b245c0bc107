import { inOrder } from "../parts/api.js";
import {
  accountLink,
  button,
  el,
  fill,
  fillFailure,
  fillOnce,
  heading,
  loading,
  searchInput,
  searchRow,
  section,
  table,
  view,
} from "../parts/elements.js";
import { count } from "../parts/format.js";
import { aWindow, limits } from "../parts/limits.js";
import { follow, recordsEdition, without } from "../parts/lists.js";
import { now, time } from "../parts/times.js";

/** The most accounts that are read without a click, because each one is a query to the store. */
const LOOK_MAX = 2_000;
/** To read very many accounts may take the gateway as long as it gives any response. */
const LOOK_MS = 60_000;
/** The most rows that are drawn: the browser stands still for seconds while it draws 20,000. */
const ROWS_MAX = 200;
/** The minimum pause before what the store did not tell is read again. */
const AGAIN_MS = 5_000;

/** Plans by environment: their limits, their accounts, and the requests that they admit. */
export function plansView({ api, live }) {
  const content = el("div", {}, loading());
  const nearest = el("div", {});
  let known;
  const { element: search, choose } = rowSearch(() => draw());
  const draw = () => known && drawPlans(content, choose(known), known.plans, live.figures);
  const get = inOrder((path) => api.get(path));
  const page = inOrder((path) => api.page(path, LOOK_MS));
  const again = whenStoreIsBack(live);
  const look = async () => {
    try {
      const { items, missing } = await page("/api/usage?top=10");
      const lacking = missing !== null && without(missing);
      fill(nearest, nearestTable(items, missing), lacking, readNow(), button("Refresh", look));
    } catch (error) {
      fillFailure(nearest, error, look);
      again.read(error, look);
    }
  };
  const load = async () => {
    await readPlans();
    if (known === undefined) return;
    const all = known.reports.reduce((sum, { accounts }) => sum + accounts, 0);
    if (all <= LOOK_MAX) await look();
    else fill(nearest, button(`Look at all ${count(all)} accounts`, look));
  };
  /** Reads the plans again, and not the accounts, because each of these is a query to the store. */
  const readPlans = async () => {
    try {
      const [{ plans, environments }, reports] = await Promise.all([
        get("/api/config"),
        get("/api/plans"),
      ]);
      known = { plans, environments: Object.keys(environments), reports };
      draw();
    } catch (error) {
      known = undefined;
      fillFailure(content, error, load);
      again.read(error, load);
    }
  };
  const reload = () => (known === undefined ? load() : readPlans());
  const { ends } = follow({ live, stateOf: recordsEdition, reload });
  ends.push(live.onChange(draw), live.onRoutes(load), again.end);
  void load();
  return view(
    ends,
    heading("Plans", "Their limits, and what they decided since the start of this gateway."),
    search,
    content,
    section("Nearest to a limit", nearest),
  );
}

/**
 * Reads again what failed because the store was unreachable, once the figures say that it is back.
 * `read(error, run)` remembers the last failure.
 */
function whenStoreIsBack(live) {
  let failed;
  const end = live.onChange(() => {
    const isDue = failed !== undefined && performance.now() - failed.atMs >= AGAIN_MS;
    if (!isDue || live.state !== "live" || !live.figures.store.up) return;
    const { run } = failed;
    failed = undefined;
    void run();
  });
  const read = ({ code }, run) => {
    if (code === "store_unavailable") failed = { run, atMs: performance.now() };
  };
  return { read, end };
}

/** When the part above it was read. */
const readNow = () => el("p", { class: "hint" }, "Last read ", time(now()));

/** A search for plans and environments, which is there if not all rows are drawn without it. */
function rowSearch(draw) {
  const told = el("p", { class: "hint", role: "status" });
  const input = searchInput({ placeholder: "plan, environment …", oninput: draw });
  const element = el("div", {});
  const choose = ({ environments, reports }) => {
    const all = reports.flatMap(({ plan, environments: held }) =>
      environments.map((environment) => ({ plan, environment, accounts: held[environment] ?? 0 })),
    );
    if (all.length <= ROWS_MAX) {
      fill(element);
      return all;
    }
    if (!input.isConnected) fill(element, searchRow(input, told));
    const words = input.value.toLowerCase().split(/\s+/);
    const fitting = all.filter(({ plan, environment }) =>
      words.every((word) => `${plan} ${environment}`.toLowerCase().includes(word)),
    );
    const left = Math.max(0, fitting.length - ROWS_MAX);
    const not = left > 0 ? `, without ${count(left)} that a search finds` : "";
    const text = `${count(fitting.length - left)} of ${count(all.length)} rows${not}`;
    if (told.textContent !== text) told.textContent = text;
    return fitting.slice(0, ROWS_MAX);
  };
  return { element, choose };
}

function drawPlans(content, chosen, plans, figures) {
  const rows = chosen.map(({ plan, environment, accounts }) => {
    const use = figures?.plans.find((one) => one.plan === plan && one.environment === environment);
    const { admitted = 0, refused = 0 } = use ?? {};
    return { plan, shown: plans[plan], environment, accounts, admitted, refused };
  });
  const empty = Object.keys(plans).length > 0 ? "Nothing fits this search." : "There is no plan.";
  fillOnce(content, rows, () => [plansTable(rows, empty)]);
}

function plansTable(rows, empty) {
  return table({
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
    empty,
  });
}

/**
 * A table of these accounts, each in its fullest window; the fullest comes first. That there is none
 * is not known of the parts of the store that are missing.
 */
function nearestTable(reports, missing) {
  const rows = reports.flatMap(({ account, plan, windows }) => {
    const share = ({ used, limit }) => used / limit;
    const [fullest] = windows.toSorted((a, b) => share(b) - share(a));
    if (fullest === undefined || fullest.used === 0) return [];
    const percent = `${Math.floor(100 * share(fullest))} %`;
    return [
      [
        accountLink(account),
        plan,
        `${count(fullest.used)} of ${count(fullest.limit)} ${aWindow(fullest.window)}`,
        percent,
      ],
    ];
  });
  return table({
    label: "Nearest to a limit",
    columns: [
      { name: "Account" },
      { name: "Plan", class: "wide" },
      { name: "Used" },
      { name: "Share", class: "number wide" },
    ],
    rows,
    empty: missing === null ? "No account has used anything in a running window." : "",
  });
}
