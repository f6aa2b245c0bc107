import { stopWaiting, whenUnselected } from "./selection.js";

/**
 * Makes an element. Attributes with a function are listeners. `true` is an attribute without a
 * value; `false`, null and undefined are left out. Texts become text nodes, never markup.
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/** What the keyboard reaches. */
const CONTROLS = "a[href], :is(button, input, select):enabled, summary, [tabindex='0']";

/** What had the keyboard when each open dialog was opened, or what is in its place since: `{ at }`. */
export const returns = new Set();

/**
 * Replaces the content of an element. Moves focus from an element in it to the one with the same
 * `data-focus`, and leaves a table that was scrolled sideways where it was. An open dialog gives the
 * focus back to the same.
 */
export function fill(element, ...children) {
  stopWaiting(element);
  const { activeElement: active } = document;
  const isIn = (one) => one !== element && element.contains(one);
  const hasFocus = isIn(active);
  const controls = () => [...element.querySelectorAll(CONTROLS)];
  const placeOf = (one) => [controls().indexOf(one), one.dataset.focus];
  const place = hasFocus && placeOf(active);
  const waiting = [...returns].filter(({ at }) => isIn(at)).map((one) => [one, placeOf(one.at)]);
  const tables = () => [...element.querySelectorAll(".scroll")];
  const scrolled = new Map(tables().map((one) => [one.ariaLabel, one.scrollLeft]));
  element.replaceChildren(...present(children));
  for (const one of tables()) one.scrollLeft = scrolled.get(one.ariaLabel) ?? 0;
  if (hasFocus) successor(controls(), place)?.focus({ preventScroll: true });
  for (const [one, its] of waiting) one.at = successor(controls(), its);
}

/**
 * What has the keyboard next: the control of this name, else the one at the place of the one that is
 * gone, else the heading of the view: an action may remove its own button.
 */
function successor(controls, [at, name]) {
  const same = controls.find(({ dataset }) => name !== undefined && dataset.focus === name);
  const next = same ?? controls[Math.min(at, controls.length - 1)] ?? document.querySelector("h1");
  if (next?.matches("h1")) next.tabIndex = -1;
  return next;
}

function present(children) {
  return children
    .flat()
    .filter((child) => child !== undefined && child !== null && child !== false);
}

/** A short announcement, which disappears after some seconds. */
export function note(text, shownMs = 6_000) {
  const one = el("p", { class: "note" }, text);
  document.getElementById("notes").append(one);
  setTimeout(() => one.remove(), shownMs);
}

/** Names the parts of the store and the workers that have not heard of a change, and what follows. */
export function unheard(missing, follows = "what was before may still hold") {
  return `No answer from ${missing}: until there is one, ${follows}`;
}

/** Announces a change, and for longer who has not heard of it. `sent` is the result of `Api.send`. */
export function noteChange(text, { missing }, follows) {
  note(text);
  if (missing !== null) note(unheard(missing, follows), 30_000);
}

/** A word for a state; the colour repeats it. */
export function badge(text, kind = "plain") {
  return el("span", { class: `badge ${kind}` }, text);
}

/** A table: `columns` are `{ name, class? }`, each row is a list of cells in their order. */
export function table({ label, columns, rows, empty }) {
  if (rows.length === 0) return el("p", { class: "empty" }, empty);
  const head = columns.map(({ name, class: kind }) =>
    el("th", { scope: "col", class: kind }, name),
  );
  const body = rows.map((cells) =>
    el("tr", {}, ...cells.map((cell, i) => el("td", { class: columns[i].class }, cell))),
  );
  return el(
    "div",
    { class: "scroll", role: "region", "aria-label": label, tabindex: "0", "data-focus": label },
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)),
  );
}

/** A block with its own heading. */
export function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), ...children);
}

/** A view, as the page shows it. `ends` are called when it is left: they release what it holds. */
export function view(ends, ...children) {
  return {
    element: el("div", {}, ...children),
    close: () => {
      for (const end of ends) end();
    },
  };
}

/** The head of a view: its title, a sentence, and its buttons. */
export function heading(title, lead, ...buttons) {
  return el(
    "div",
    { class: "heading" },
    el("div", {}, el("h1", {}, title), lead && el("p", { class: "lead" }, lead)),
    buttons.length > 0 && el("div", { class: "buttons" }, ...buttons),
  );
}

/** The field of a search; `attributes` add to it. */
export function searchInput(attributes) {
  const plain = { maxlength: 200, autocomplete: "off", spellcheck: "false" };
  return el("input", { type: "search", id: "search", ...plain, ...attributes });
}

/** The row of a search: its field, and how much it has found. */
export function searchRow(input, found) {
  return el("div", { class: "search" }, el("label", { for: "search" }, "Search"), input, found);
}

/**
 * A button. `focus` identifies it among buttons with the same text, so that it can keep the focus.
 */
export function button(text, onclick, kind = "", focus = text) {
  return el("button", { type: "button", class: kind, onclick, "data-focus": focus }, text);
}

/**
 * The way to an account. `focus` identifies it among links to the same account. A client address
 * without a key is in no list of accounts, so it is plain text.
 */
export function accountLink(account, focus = account) {
  if (account.startsWith("addr:")) return el("span", { class: "id" }, account);
  const href = `#/accounts/${encodeURIComponent(account)}`;
  return el("a", { class: "id", href, "data-focus": focus }, account);
}

/**
 * Draws a part of a view that is read again and again, but only if `shown`, which it is drawn from,
 * has changed, because a screen reader would say the same again. `draw` returns its content. Returns
 * whether it was drawn at once.
 */
export function fillOnce(part, shown, draw) {
  const text = JSON.stringify(shown);
  if (part.dataset.shown === text) {
    stopWaiting(part);
    return false;
  }
  return whenUnselected(part, () => {
    part.dataset.shown = text;
    fill(part, ...draw());
  });
}

/** Shows an error instead of what a part showed, which is drawn again as soon as it can be read. */
export function fillFailure(part, error, again) {
  delete part.dataset.shown;
  fill(part, failure(error, again));
}

/** What a view shows until its content is known. */
export function loading() {
  return el("p", { class: "empty" }, "Loading…");
}

/** An error, shown instead of the content that failed, with a button to try again. */
export function failure(error, again) {
  return el(
    "div",
    { class: "failure", role: "alert" },
    el("p", {}, error.message),
    again && button("Try again", again),
  );
}
