import { inOrder } from "../parts/api.js";
import {
  accountLink,
  badge,
  el,
  failure,
  fill,
  fillFailure,
  fillOnce,
  heading,
  loading,
  section,
  table,
  view,
} from "../parts/elements.js";
import { count } from "../parts/format.js";
import { without } from "../parts/lists.js";
import { exactly, now, sunsetTime, time } from "../parts/times.js";

/**
 * Reads the callers again, of whom no figures tell: they may have called another gateway, which adds
 * them to the store every 30 s.
 */
const CALLERS_EVERY_MS = 60_000;

/**
 * Deprecated operations, the first to be removed at the top: their sunset, their number of calls and,
 * if it is known, their callers. Why they cannot be read again is told above them, and they stay.
 */
export function deprecationsView({ api, live }) {
  const trouble = el("div", {});
  const content = el("div", {}, loading());
  let going;
  const draw = () => going && drawOperations(content, going, live.figures);
  const get = inOrder((path) => api.get(path));
  const page = inOrder((path) => api.page(path));
  const load = async () => {
    try {
      const { environments } = await get("/api/config");
      const { callers = [], missing = null } = going ?? {};
      const read = { operations: operationsIn(environments), callers, missing };
      if (api.has("GET /api/deprecations")) {
        const { items, missing } = await page("/api/deprecations");
        Object.assign(read, { callers: items, missing });
      }
      going = { ...read, readAt: now() };
      fill(trouble);
      draw();
    } catch (error) {
      if (going === undefined) return fillFailure(content, error, load);
      fill(trouble, failure(error, load), asOf(going.readAt));
    }
  };
  const timer = setInterval(() => document.hidden || void load(), CALLERS_EVERY_MS);
  const ends = [live.onChange(draw), live.onRoutes(load), () => clearInterval(timer)];
  void load();
  return view(
    ends,
    heading(
      "Deprecations",
      "Deprecated operations, with their requests here since the start of this gateway. Who still calls counts those of all gateways, before this start too. From its sunset on, an operation answers 410.",
    ),
    trouble,
    content,
  );
}

/** When the tables were read that stay, because they cannot be read again. */
function asOf(readAt) {
  return el("p", { class: "hint" }, "What is below was read ", time(readAt), ".");
}

function operationsIn(environments) {
  const found = Object.entries(environments).flatMap(([environment, one]) => {
    const { operations, backends = [] } = one;
    const all = [operations, ...backends.map((one) => one.operations)].flatMap((list) =>
      Array.isArray(list) ? list : [],
    );
    return all
      .filter(({ lifecycle }) => lifecycle?.deprecated)
      .map((operation) => ({ environment, ...operation }));
  });
  const sunset = ({ lifecycle }) => lifecycle.sunsetMs ?? Number.MAX_VALUE;
  return found.sort((a, b) => sunset(a) - sunset(b));
}

function drawOperations(content, { operations, callers, missing }, figures) {
  const rows = operations.map(({ environment, method, template, lifecycle }) => {
    const counted = figures?.deprecated.find((one) => {
      return one.environment === environment && one.route === template && one.method === method;
    });
    const { sunsetMs, successor } = lifecycle;
    const requests = counted?.requests ?? 0;
    const isGone = sunsetMs !== undefined && sunsetMs / 1_000 <= now();
    return { environment, method, template, sunsetMs, isGone, successor, requests };
  });
  const called = () => [callersOf(callers, missing), missing !== null && without(missing)];
  fillOnce(content, [rows, callers, missing], () => [
    operationsTable(rows),
    callers.length > 0 && section("Who still calls", ...called()),
  ]);
}

function operationsTable(rows) {
  return table({
    label: "Deprecated operations",
    columns: [
      { name: "Operation" },
      { name: "Environment", class: "wide" },
      { name: "Sunset" },
      { name: "Requests here", class: "number" },
      { name: "Successor", class: "wide" },
    ],
    rows: rows.map((row) => [
      el("span", { class: "id" }, `${row.method} ${row.template}`),
      row.environment,
      sunsetOf(row),
      count(row.requests),
      row.successor ?? "–",
    ]),
    empty: "No operation is deprecated.",
  });
}

function sunsetOf({ sunsetMs, isGone }) {
  if (sunsetMs === undefined) return "no date";
  const sunset = sunsetMs / 1_000;
  if (!isGone) return exactly(sunsetTime(sunset));
  return el("span", {}, badge("gone", "bad"), " ", exactly(time(sunset)));
}

/** The most callers shown for each operation, by requests. The command line lists all. */
const CALLERS_MAX = 50;

function callersOf(operations, missing) {
  if (operations.some(({ accounts }) => accounts === undefined)) {
    return el("p", { class: "empty" }, "Unknown: the store cannot be reached.");
  }
  return callersTable(operations, missing);
}

/** That no account calls them is not known of the workers that are missing. */
function callersTable(operations, missing) {
  const rows = operations.flatMap(({ environment, method, route, accounts }) => {
    const more = accounts.length - CALLERS_MAX;
    const operation = `${method} ${route}`;
    const shown = accounts
      .toSorted((a, b) => b.requests - a.requests)
      .slice(0, CALLERS_MAX)
      .map(({ account, last, requests }) => [
        accountLink(account, `${account} of ${environment} ${operation}`),
        operation,
        environment,
        count(requests),
        time(last),
      ]);
    const rest = [`${count(more)} more, with fewer requests`, operation, environment, "–", "–"];
    return more > 0 ? [...shown, rest] : shown;
  });
  return table({
    label: "Callers",
    columns: [
      { name: "Account" },
      { name: "Operation" },
      { name: "Environment", class: "wide" },
      { name: "Requests", class: "number" },
      { name: "Last" },
    ],
    rows,
    empty: missing === null ? "No account is known to call them." : "",
  });
}
