import { ask, showKey } from "./dialogs.js";
import { accountLink, badge, button, el, heading, table } from "./elements.js";
import { count, counted, now, parseLimits, time } from "./format.js";
import { pagedList } from "./lists.js";

/** A search is sent after a pause in typing of this length. */
const TYPING_MS = 200;

/**
 * Every account with its keys. The gateway searches and pages them, and finds that of a whole key,
 * which goes into no URL. Keys are made here too.
 */
export function accountsView({ api, live, words = "" }) {
  const found = el("p", { class: "hint", role: "status" });
  let all;
  const onTotal = (total) => {
    if (words === "") all = total;
    // The number of all is that of the last answer without a search, if there was one.
    const isPart = words !== "" && all >= total;
    const part = isPart ? `${count(total)} of ` : "";
    const isUnknown = words !== "" && all === undefined;
    found.textContent = `${part}${counted(isPart ? all : total, "account")}${isUnknown ? " found" : ""}`;
  };
  const query = () => new URLSearchParams(words === "" ? {} : { q: words });
  const path = () => `/api/accounts?order=newest&${query()}`;
  const draw = (accounts) => accountsTable(accounts, words);
  const list = pagedList({ api, path: path(), draw, onTotal });
  const keys = keySearch(api, (key) => search.isConnected && search.value.trim() === key);
  const end = live.onRoutes(() => {
    void list.reload();
    void keys.learn();
  });
  let timer;
  const search = el("input", {
    type: "search",
    id: "search",
    placeholder: "account, key, name, plan …",
    maxlength: 200,
    autocomplete: "off",
    spellcheck: "false",
    value: words,
    oninput: ({ target }) => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const typed = target.value.trim();
        if (keys.has(typed)) return void keys.open(typed, found);
        words = typed;
        // The way back from an account leads to what was found.
        history.replaceState(null, "", words === "" ? "#/accounts" : `#/accounts?${query()}`);
        void list.show(path());
      }, TYPING_MS);
    },
  });
  const create = async () => (await createKey(api)) && list.show(path());
  return {
    element: el(
      "div",
      {},
      heading(
        "Accounts",
        "Quotas, strikes and bans belong to the account; its keys share them.",
        button("Create a key", create, "primary"),
      ),
      el("div", { class: "search" }, el("label", { for: "search" }, "Search"), search, found),
      list.element,
    ),
    close: () => {
      clearTimeout(timer);
      end();
    },
  };
}

const NO_KEY = "No account has this key: is it whole, and of this gateway?";

/**
 * The search for a whole key. `learn` reads the shapes of foreign keys again; `open` goes to the
 * account of a key, or says in `told` why there is none, if it is still typed then.
 */
function keySearch(api, isTyped) {
  let foreign = [];
  const learn = async () => {
    const { foreignKeys } = await api.get("/api/config").catch(() => ({}));
    if (Array.isArray(foreignKeys)) foreign = foreignKeys;
  };
  void learn();
  const isForeign = (text, { prefix, min }) => {
    const rest = text.includes(prefix) ? text.slice(text.indexOf(prefix) + prefix.length) : "";
    return /^[\w-]*/.exec(rest)[0].length >= min;
  };
  // A key of which some characters are missing is a secret too.
  const has = (text) =>
    /[a-z0-9]_[a-z0-9]+_[0-9A-Za-z]{30}/.test(text) || foreign.some((one) => isForeign(text, one));
  const open = async (key, told) => {
    try {
      const { value } = await api.send("POST", "/api/keys/find", { key });
      if (isTyped(key)) location.hash = `#/accounts/${encodeURIComponent(value.account)}`;
    } catch (error) {
      if (isTyped(key)) told.textContent = error.status === 404 ? NO_KEY : error.message;
    }
  };
  return { learn, has, open };
}

/** Whether a key works now, by the clock of the gateway. */
export function works({ revoked, expires }) {
  return revoked === null && (expires === null || expires > now());
}

function accountsTable(accounts, words) {
  return table({
    label: "Accounts",
    columns: [
      { name: "Account" },
      { name: "Plan" },
      { name: "Environment", class: "wide" },
      { name: "Keys that work", class: "number" },
      { name: "Created", class: "wide" },
    ],
    rows: accounts.map(rowOf),
    empty:
      words === "" ? "No account yet: create a key, and it gets one." : "Nothing fits this search.",
  });
}

function rowOf({ account, environment, plan, state, created, keys, names }) {
  return [
    el(
      "div",
      {},
      accountLink(account),
      state === "suspended" && [" ", badge("suspended", "bad")],
      names.length > 0 && el("div", { class: "names" }, names.join(", ")),
    ),
    plan,
    environment,
    keys.length === 0 ? badge("none", "warn") : count(keys.length),
    time(created),
  ];
}

/**
 * Asks for the details of a key, makes it, and shows it once. `account` is set to add a key to it.
 */
export async function createKey(api, account) {
  const joins = account !== undefined;
  const issued = await ask({
    title: joins ? `Add a key for ${account}` : "Create a key",
    fields: async () => fieldsOfKey(await api.get("/api/config"), joins),
    verb: "Create",
    run: (values) => api.send("POST", "/api/keys", wanted({ account, ...values })),
  });
  if (issued !== undefined) await showKey(issued);
  return issued;
}

function fieldsOfKey({ environments, plans }, joins) {
  return [
    !joins && { name: "environment", label: "Environment", options: Object.keys(environments) },
    !joins && { name: "plan", label: "Plan", options: Object.keys(plans) },
    { name: "name", label: "Name", hint: "For people: who has it, and where it is used." },
    !joins && {
      name: "account",
      label: "Account",
      hint: "Empty: a new one of its own. For one that exists, its own plan, or add the key on its page.",
    },
    {
      name: "expires",
      label: "Expires after",
      placeholder: "90d",
      hint: "Empty: never. Such as 24h or 90d.",
    },
    { name: "scopes", label: "Scopes", hint: "Separated by commas." },
    {
      name: "caps",
      label: "Limits of this key",
      placeholder: "day=500",
      hint: "Of this key alone, inside its account.",
    },
    !joins && {
      name: "limits",
      label: "Limits of its own",
      placeholder: "minute=500, day=20000",
      hint: "In place of those of the plan; a custom plan needs some.",
    },
  ].filter(Boolean);
}

/** The body of POST /api/keys; empty fields are left out. */
function wanted({ scopes, limits, caps, ...rest }) {
  const texts = Object.entries(rest).filter(([, value]) => value !== "");
  const list = (text = "") =>
    text
      .split(",")
      .map((part) => part.trim())
      .filter(Boolean);
  const body = Object.fromEntries(texts);
  if (list(scopes).length > 0) body.scopes = list(scopes);
  const own = parseLimits(limits ?? "");
  if (Object.keys(own).length > 0) body.limits = own;
  const ofKey = parseLimits(caps ?? "");
  if (Object.keys(ofKey).length > 0) body.caps = ofKey;
  return body;
}
