import { el, failure, fill, loading } from "./elements.js";
import { count } from "./format.js";
import { whenUnselected } from "./selection.js";
import { hasEnded } from "./times.js";

/** Names the parts of the store, the workers and the accounts missing in what is shown above. */
export const without = (missing) => el("p", { class: "empty" }, `Incomplete, without ${missing}`);

/** If changes come in a row, what shows them is read again at most once in this time. */
const RELOAD_MS = 2_000;

/** Reads again soon after `stateOf(live)` has changed, or `soon` is called, until `ends` end it. */
export function follow({ live, stateOf, reload }) {
  let seen = stateOf(live);
  let timer;
  const soon = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      void reload();
    }, RELOAD_MS);
  };
  const look = () => {
    const now = stateOf(live);
    if (now === seen) return;
    seen = now;
    soon();
  };
  return { soon, ends: [live.onChange(look), () => clearTimeout(timer)] };
}

/** Counts the changes of keys and accounts. An older gateway behind the same address does not tell it. */
export const recordsEdition = ({ figures }) => figures?.records?.edition;

/** Why records may be missing from the store, undefined if the gateway knows of none. */
export const recordsTrouble = ({ figures }) => figures?.checks?.keys?.why;

/** Gives the keyboard to the button that turned the page, or to the other one at the first or last page. */
function focusPager(element, turned) {
  const same = element.querySelector(`${turned > 0 ? ".next" : ".previous"}:enabled`);
  (same ?? element.querySelector(".pager :enabled"))?.focus();
}

function pager({ items, next, total, from, isMoved, turn }) {
  // An account may be called "next", and its link keeps the focus by its name.
  const step = (kind, name, by, disabled) => {
    const focus = `${kind} page`;
    const attributes = { type: "button", class: kind, disabled, "data-focus": focus };
    return el("button", { ...attributes, onclick: () => turn(by) }, name);
  };
  return el(
    "div",
    { class: "pager" },
    step("previous", "Previous", -1, from === 0),
    el(
      "span",
      {},
      `${isMoved ? "about " : ""}${count(from + 1)} to ${count(from + items.length)} of ${count(total)}`,
    ),
    step("next", "Next", 1, next === undefined),
  );
}

/**
 * `trail` has the paths of the pages up to the next one, `at` is the index of the one that is shown.
 * `totalAtStart` is the number of all items when the first page was read: with another one, the
 * places have moved.
 */
function firstPage(path, rows) {
  const url = new URL(path, location.origin);
  url.searchParams.set("limit", rows);
  return { trail: [url.pathname + url.search], at: 0, totalAtStart: undefined };
}

/** The page of the same list that the browser kept, or else the first one. */
function keptPage(first) {
  const { list } = history.state ?? {};
  return list?.trail[0] === first.trail[0] ? list : first;
}

/** That there are no entries is not known of the parts that are missing. */
function contentOf({ items, missing, pages, draw }) {
  const entries = (items.length > 0 || missing === null) && draw(items);
  return [entries, pages, missing !== null && without(missing)];
}

/**
 * A list that the gateway pages. At most `rows` of it are in the document. `draw(items)` makes the
 * element of one page. `onTotal(total)` is called with the number of all items. `show(path)` starts
 * over; `reload` reads the same page again. The browser keeps the page that was turned to, for the way
 * back.
 */
export function pagedList({ api, path, draw, rows = 50, onTotal = () => {} }) {
  const element = el("div", {}, loading());
  let { trail, at, totalAtStart } = keptPage(firstPage(path, rows));
  /** Responses may arrive out of order: only that of the last request counts. */
  let asked = 0;
  let shown = "";
  const load = async (options = {}) => {
    asked += 1;
    const mine = asked;
    try {
      const page = await api.page(trail[at]);
      if (mine !== asked) return;
      if (page.items.length === 0 && at > 0) return startOver(options);
      place(page, options);
    } catch (error) {
      if (mine !== asked) return;
      // A place that the browser kept may be unknown to a gateway that has other records now.
      if (error.status === 400 && at > 0) return startOver(options);
      shown = "";
      fill(element, failure(error, load));
    }
  };
  const startOver = (options) => {
    at = 0;
    return load(options);
  };
  const place = ({ items, next, total, missing }, { turned = 0 }) => {
    onTotal(total);
    if (at === 0) totalAtStart = total;
    const text = JSON.stringify([trail[at], items, next, total, missing]);
    // A key that ends by itself is told in the same words before and after.
    if (text === shown && !hasEnded(element)) return;
    shown = text;
    trail = [...trail.slice(0, at + 1), ...(next === undefined ? [] : [next])];
    // Another page may be asked for before it is drawn.
    const pages = (next !== undefined || at > 0) && pagerHere({ items, next, total });
    const drawAll = () => fill(element, contentOf({ items, missing, pages, draw }));
    if (turned === 0) return void whenUnselected(element, drawAll);
    drawAll();
    focusPager(element, turned);
  };
  const pagerHere = (page, here = at) => {
    /** Two clicks before the answer turn by one page, because the way to the second is unknown. */
    const turn = (by) => {
      at = here + by;
      keep();
      return load({ turned: by });
    };
    return pager({ ...page, from: here * rows, isMoved: page.total !== totalAtStart, turn });
  };
  const keep = () => history.replaceState({ list: { trail, at, totalAtStart } }, "");
  const show = (wanted) => {
    ({ trail, at } = firstPage(wanted, rows));
    keep();
    return load();
  };
  void load();
  return { element, show, reload: () => load() };
}
