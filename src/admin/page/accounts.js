import { ask, showKey } from "./dialogs.js";
import { badge, button, el, failure, fill, heading, table } from "./elements.js";
import { count, time } from "./format.js";

const ROWS = 50;

/** Every account with its keys: searched, paged, and the place where keys are made. */
export function accountsView({ api }) {
  const results = el("div", {}, el("p", { class: "empty" }, "Loading…"));
  const found = el("p", { class: "hint", role: "status" });
  const state = { accounts: [], search: "", page: 0 };
  const draw = () => drawPage({ state, results, found, draw });
  const load = async () => {
    try {
      state.accounts = await readAccounts(api);
      draw();
    } catch (error) {
      fill(results, failure(error, load));
    }
  };
  const search = el("input", {
    type: "search",
    id: "search",
    placeholder: "account, key, name, plan …",
    autocomplete: "off",
    spellcheck: "false",
    oninput: ({ target }) => {
      state.search = target.value.trim().toLowerCase();
      state.page = 0;
      draw();
    },
  });
  const create = button(
    "Create a key",
    () => createKey(api).then((made) => made && load()),
    "primary",
  );
  void load();
  return {
    element: el(
      "div",
      {},
      heading(
        "Accounts",
        "Quotas, strikes and bans belong to the account; its keys share them.",
        create,
      ),
      el("div", { class: "search" }, el("label", { for: "search" }, "Search"), search, found),
      results,
    ),
  };
}

/** Accounts, the newest first, each with all of its keys. */
export async function readAccounts(api) {
  const [records, keys] = await Promise.all([api.all("/api/accounts"), api.all("/api/keys")]);
  const held = Map.groupBy(keys, ({ account }) => account);
  return records
    .map((record) => ({ ...record, keys: held.get(record.account) ?? [] }))
    .map((one) => ({ ...one, text: textOf(one) }))
    .sort((a, b) => b.created - a.created || (a.account < b.account ? -1 : 1));
}

function textOf({ account, environment, plan, state, meta, keys }) {
  const words = [account, environment, plan, state, ...Object.entries(meta).flat()];
  return [...words, ...keys.flatMap(({ id, name }) => [id, name])].join("\n").toLowerCase();
}

export function works({ revoked, expires }) {
  return revoked === null && (expires === null || expires > Date.now() / 1_000);
}

function drawPage({ state, results, found, draw }) {
  const { accounts, search } = state;
  const words = search.split(/\s+/).filter(Boolean);
  const hits = accounts.filter(({ text }) => words.every((word) => text.includes(word)));
  const pages = Math.max(1, Math.ceil(hits.length / ROWS));
  state.page = Math.min(state.page, pages - 1);
  const from = state.page * ROWS;
  const all = accounts.length === 1 ? "1 account" : `${count(accounts.length)} accounts`;
  found.textContent = search ? `${count(hits.length)} of ${all}` : all;
  const turn = (by) => () => {
    state.page += by;
    draw();
    results.querySelector(by > 0 ? ".next" : ".previous")?.focus();
  };
  const pager = el(
    "div",
    { class: "pager" },
    el(
      "button",
      { type: "button", class: "previous", disabled: state.page === 0, onclick: turn(-1) },
      "Previous",
    ),
    el("span", {}, `${count(from + 1)} to ${count(Math.min(from + ROWS, hits.length))}`),
    el(
      "button",
      { type: "button", class: "next", disabled: state.page === pages - 1, onclick: turn(1) },
      "Next",
    ),
  );
  fill(
    results,
    table({
      label: "Accounts",
      columns: [
        { name: "Account" },
        { name: "Plan" },
        { name: "Environment", class: "wide" },
        { name: "Keys that work", class: "number" },
        { name: "Created", class: "wide" },
      ],
      rows: hits.slice(from, from + ROWS).map(rowOf),
      empty:
        accounts.length === 0
          ? "No account yet: create a key, and it gets one."
          : "Nothing fits this search.",
    }),
    pages > 1 && pager,
  );
}

function rowOf({ account, environment, plan, state, created, keys }) {
  const names = [...new Set(keys.map(({ name }) => name).filter(Boolean))].join(", ");
  const working = keys.filter(works).length;
  return [
    el(
      "div",
      {},
      el("a", { class: "id", href: `#/accounts/${encodeURIComponent(account)}` }, account),
      state === "suspended" && badge("suspended", "bad"),
      names && el("div", { class: "names" }, names),
    ),
    plan,
    environment,
    working === 0 ? badge("none", "warn") : `${count(working)} of ${count(keys.length)}`,
    time(created),
  ];
}

/** Asks for what a key needs, makes it, and shows it once. `account` is given for one more key of it. */
export async function createKey(api, { account, environment, plan } = {}) {
  const { environments, plans } = await api.get("/api/config");
  const joins = account !== undefined;
  const fields = [
    !joins && { name: "environment", label: "Environment", options: Object.keys(environments) },
    !joins && { name: "plan", label: "Plan", options: Object.keys(plans) },
    { name: "name", label: "Name", hint: "For people: who has it, and where it is used." },
    !joins && { name: "account", label: "Account", hint: "Empty: a new one of its own." },
    {
      name: "expires",
      label: "Expires after",
      placeholder: "90d",
      hint: "Empty: never. Such as 24h or 90d.",
    },
    { name: "scopes", label: "Scopes", hint: "Separated by commas." },
    !joins && {
      name: "limits",
      label: "Limits of its own",
      placeholder: "minute=500, day=20000",
      hint: "In place of those of the plan; a custom plan needs some.",
    },
  ].filter(Boolean);
  const issued = await ask({
    title: joins ? `One more key for ${account}` : "Create a key",
    fields,
    verb: "Create",
    run: (values) =>
      api.send("POST", "/api/keys", wanted({ environment, plan, account, ...values })),
  });
  if (issued !== undefined) await showKey(issued);
  return issued;
}

/** The body of POST /api/keys: what is empty is left out. */
function wanted({ scopes, limits, ...rest }) {
  const texts = Object.entries(rest).filter(([, value]) => value !== undefined && value !== "");
  const list = (text = "") =>
    text
      .split(",")
      .map((part) => part.trim())
      .filter(Boolean);
  const body = Object.fromEntries(texts);
  if (list(scopes).length > 0) body.scopes = list(scopes);
  const pairs = list(limits).map((pair) => pair.split("=").map((part) => part.trim()));
  if (pairs.length > 0) {
    body.limits = Object.fromEntries(pairs.map(([window, limit]) => [window, Number(limit)]));
  }
  return body;
}
