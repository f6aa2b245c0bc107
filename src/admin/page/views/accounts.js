import {
  accountLink,
  badge,
  button,
  el,
  fillOnce,
  heading,
  searchInput,
  searchRow,
  table,
  view,
} from "../parts/elements.js";
import { count, counted } from "../parts/format.js";
import { follow, pagedList, recordsEdition, recordsTrouble } from "../parts/lists.js";
import { time } from "../parts/times.js";
import { createKey } from "./issue.js";

/** A search is sent after a pause in typing of this length. */
const TYPING_MS = 200;

/**
 * Every account with its keys, read again after changes. The gateway searches and pages them, and
 * finds that of a whole key, which goes into no URL.
 */
export function accountsView({ api, live, words = "" }) {
  const found = el("p", { class: "hint", role: "status" });
  /** The number of all accounts, of the last answer without a search. */
  let all;
  /** That of the last answer, with its search. */
  let newest;
  const onTotal = (total) => {
    newest = total;
    drawEmpty(empty, words, recordsTrouble(live));
    if (words === "") all = total;
    // A list that is read again leaves what was said of a key.
    if (keys.has(search.value.trim())) return;
    const text = totalText(total, { words, all, live });
    if (found.textContent !== text) found.textContent = text;
  };
  const query = () => new URLSearchParams(words === "" ? {} : { q: words });
  const path = () => `/api/accounts?order=newest&${query()}`;
  const draw = (accounts) => accountsTable(accounts, empty);
  const empty = el("p", { class: "empty" });
  /** The figures may tell that records are gone after the list was read, or before. */
  const tellEmpty = () => newest === 0 && onTotal(newest);
  const list = pagedList({ api, path: path(), draw, onTotal });
  const keys = keySearch(api, (key) => search.isConnected && search.value.trim() === key);
  const { ends } = follow({ live, stateOf: recordsEdition, reload: list.reload });
  const end = live.onRoutes(() => {
    void list.reload();
    void keys.learn();
  });
  /** Keeps the search in the address, so that the way back from an account leads to what was found. */
  const keep = (typed) => {
    words = typed;
    history.replaceState(null, "", words === "" ? "#/accounts" : `#/accounts?${query()}`);
  };
  ends.push(
    onLink(() => {
      const typed = search.value.trim();
      if (typed !== words && !keys.has(typed)) keep(typed);
    }),
  );
  const { search, end: endTyping } = pausedSearch(words, (typed) => {
    if (keys.has(typed)) return void keys.open(typed, found);
    keep(typed);
    void list.show(path());
  });
  const create = async () => (await createKey(api)) && list.show(path());
  return view(
    [...ends, end, live.onChange(tellEmpty), endTyping],
    heading(
      "Accounts",
      "Quotas, strikes and bans belong to the account; its keys share them.",
      button("Create a key", create, "primary"),
    ),
    searchRow(search, found),
    list.element,
  );
}

/** How many accounts a list has. Records that are gone are not counted as none. */
function totalText(total, { words, all, live }) {
  if (total === 0 && recordsTrouble(live) !== undefined) return "";
  return words === "" ? counted(total, "account") : foundText(total, all);
}

/** A search field that calls `act` with what was typed once the typing pauses, and what ends that. */
function pausedSearch(value, act) {
  let timer;
  const search = searchInput({
    placeholder: "account, key, name, plan …",
    value,
    oninput: ({ target }) => {
      clearTimeout(timer);
      timer = setTimeout(() => act(target.value.trim()), TYPING_MS);
    },
  });
  return { search, end: () => clearTimeout(timer) };
}

/** Calls `act` when a link is pressed, which may be before a pause in typing is over. */
function onLink(act) {
  const listen = ({ target }) => target.closest("a[href]") && act();
  document.addEventListener("click", listen, true);
  return () => document.removeEventListener("click", listen, true);
}

/** How many accounts fit a search; `all` is the number of all, undefined if it is not known. */
function foundText(total, all) {
  const fitting = counted(total, "account");
  if (all === undefined) return `${fitting} found`;
  return all < total ? fitting : `${count(total)} of ${counted(all, "account")}`;
}

const NO_KEY =
  "No account has this key: is it whole, and of this gateway? A long word that is no key is found in lower case.";

/** A part of a key that has no prefix any more: many characters in a row, as its secret has them. */
const SECRET = /(?=[0-9A-Z]*[a-z])(?=[0-9a-z]*[A-Z])[0-9A-Za-z]{20,}/;
/** So many characters of a secret tell nothing of the rest. */
const START = 12;

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
  const isKey = (text) =>
    /[a-z0-9]_[a-z0-9]+_[0-9A-Za-z]{30}/.test(text) || foreign.some((one) => isForeign(text, one));
  const has = (text) => isKey(text) || SECRET.test(text);
  /** The account that has this id, which may look like a part of a key; undefined if there is none. */
  const accountOf = async (id) => {
    if (isKey(id)) return undefined;
    const start = id.slice(0, SECRET.exec(id).index + START);
    const { items } = await api.page(`/api/accounts?${new URLSearchParams({ q: start })}`);
    return items.find(({ account }) => account === id)?.account;
  };
  const find = async (key) => {
    try {
      return (await api.send("POST", "/api/keys/find", { key })).value.account;
    } catch (error) {
      if (error.status !== 404) throw error;
      return accountOf(key);
    }
  };
  const open = async (key, told) => {
    try {
      const account = await find(key);
      if (!isTyped(key)) return;
      if (account === undefined) told.textContent = NO_KEY;
      else location.hash = `#/accounts/${encodeURIComponent(account)}`;
    } catch (error) {
      if (isTyped(key)) told.textContent = error.message;
    }
  };
  return { learn, has, open };
}

function drawEmpty(empty, words, trouble) {
  const text = emptyText(words, trouble);
  fillOnce(empty, text, () => [text]);
}

function emptyText(words, trouble) {
  if (words !== "") return "Nothing fits this search.";
  if (trouble !== undefined) return `No account is found: ${trouble}`;
  return "No account yet: create a key, and it gets one.";
}

function accountsTable(accounts, empty) {
  if (accounts.length === 0) return empty;
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
