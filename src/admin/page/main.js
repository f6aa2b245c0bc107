import { Api } from "./parts/api.js";
import { askToken } from "./parts/dialogs.js";
import { badge, el, fill, fillOnce } from "./parts/elements.js";
import { Live } from "./parts/live.js";
import { watchSelection } from "./parts/selection.js";
import { keepTimes } from "./parts/times.js";
import { accountView } from "./views/account.js";
import { accountsView } from "./views/accounts.js";
import { backendsView } from "./views/backends.js";
import { bansView } from "./views/bans.js";
import { configurationView } from "./views/configuration.js";
import { deprecationsView } from "./views/deprecations.js";
import { eventsView } from "./views/events.js";
import { explainView } from "./views/explain.js";
import { gatewaysView } from "./views/gateways.js";
import { downEnvironments, overviewView } from "./views/overview.js";
import { plansView } from "./views/plans.js";

/** The sections in their order. A section is offered only if the route in `needs` exists. */
const SECTIONS = [
  { path: "", name: "Overview", view: overviewView },
  { path: "accounts", name: "Accounts", view: accountsView },
  { path: "bans", name: "Bans", view: bansView },
  { path: "plans", name: "Plans", view: plansView },
  { path: "gateways", name: "Gateways", view: gatewaysView },
  { path: "backends", name: "Backends", view: backendsView },
  { path: "deprecations", name: "Deprecations", view: deprecationsView },
  { path: "events", name: "Events", view: eventsView },
  { path: "explain", name: "Explain", view: explainView, needs: "GET /api/explain/:request" },
  { path: "configuration", name: "Configuration", view: configurationView },
];

const api = new Api(askToken);
const live = new Live(api);
const main = document.getElementById("main");
let current;

/** The section, its argument and its search in the URL: "#/accounts/a_1", "#/accounts?q=zoo". */
function place() {
  const [whole, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [path, id] = whole.split("/");
  const { q: words = "", kind = "" } = Object.fromEntries(new URLSearchParams(query));
  return { path, id: id === undefined ? undefined : decoded(id), words, kind };
}

/** The URL may have been typed by hand, so text with an invalid encoding is taken as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Shows a view and closes the previous one first. */
function show() {
  const { path, id, words, kind } = place();
  const section = SECTIONS.find((one) => one.path === path) ?? SECTIONS[0];
  const view = path === "accounts" && id !== undefined ? accountView : section.view;
  current?.close();
  current = view({ api, live, id, words, kind });
  const names = [view === accountView && id, section.path !== "" && section.name, "Tollgate"];
  document.title = names.filter(Boolean).join(" · ");
  fill(main, current.element);
  showSections();
}

/** Redraws the sections only if they have changed, so that the keyboard focus stays. */
function showSections() {
  const { path } = place();
  const offered = SECTIONS.filter(({ needs }) => needs === undefined || api.has(needs));
  const nav = document.getElementById("sections");
  const link = (one) =>
    el("a", { href: `#/${one.path}`, "aria-current": one.path === path && "page" }, one.name);
  const isDrawn = fillOnce(nav, [path, offered], () => offered.map(link));
  if (!isDrawn) return;
  // On a phone the row of sections is wider than the window.
  const current = nav.querySelector("[aria-current=page]");
  if (current) nav.scrollLeft = current.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
}

/** Shows in the head of every section whether all is well. */
function showStatus() {
  const { word, kind, why } = statusOf(live);
  fillOnce(document.getElementById("status"), [word, kind, why], () => [
    badge(word, kind),
    why && el("span", {}, why),
  ]);
  document.body.classList.toggle("stale", live.state !== "live");
}

/** A word for the state, its colour, and why it is so. */
function statusOf({ figures, state }) {
  const failing = Object.entries(figures?.checks ?? {}).filter(([, { ok }]) => !ok);
  const why = failing.map(([name, check]) => `${name}: ${check.why ?? "failing"}`).join("; ");
  if (state === "connecting") return { word: "Connecting", kind: "plain", why };
  if (state !== "live") return { word: state, kind: "bad", why: lastShown(figures) };
  if (failing.length > 0) return { word: "Not ready", kind: "bad", why };
  // An environment may be down although every check passes.
  const down = downEnvironments(figures);
  if (down.length > 0) return { word: `Down: ${down.join(", ")}`, kind: "bad", why };
  return { word: "Ready", kind: "good", why };
}

function lastShown(figures) {
  if (figures === undefined) return "";
  return `What is shown is as of ${new Date(figures.atMs).toISOString().slice(11, 19)} UTC`;
}

/** How far each place of the history was scrolled when it was left, for the way back. */
const scrolled = new Map();
/** The longest time that a view may take to be as high as it was. */
const DRAWN_MS = 5_000;
let growing;

/** How far the window can be scrolled. */
const endOfScroll = () => document.documentElement.scrollHeight - innerHeight;

/** Scrolls to where the view was left, which its content reaches only when it was read. */
function scrollWhenDrawn(y) {
  growing?.abort();
  scrollTo(0, y);
  let reached = scrollY;
  if (reached >= y) return;
  growing = new AbortController();
  const { signal } = growing;
  const stop = () => growing.abort();
  // Keys with these lead through the history and scroll nothing.
  const act = ({ altKey, metaKey }) => altKey || metaKey || stop();
  const observer = new ResizeObserver(() => {
    // Not every browser tells of a drag of the scroll bar, which leads up and away from the end.
    if (scrollY < Math.min(reached, endOfScroll()) - 1) return stop();
    scrollTo(0, y);
    reached = scrollY;
    if (reached >= y) stop();
  });
  observer.observe(main);
  signal.addEventListener("abort", () => observer.disconnect());
  for (const kind of ["keydown", "pointerdown", "wheel"]) addEventListener(kind, act, { signal });
  setTimeout(() => signal.aborted || stop(), DRAWN_MS);
}

addEventListener("hashchange", () => {
  show();
  main.focus({ preventScroll: true });
  scrollWhenDrawn(scrolled.get(globalThis.navigation?.currentEntry.key) ?? 0);
});
// A browser without this API shows each place from its top.
globalThis.navigation?.addEventListener("navigate", () => {
  // A view that is left before it was drawn is not where it was scrolled to.
  const isDrawn = growing?.signal.aborted ?? true;
  if (isDrawn) scrolled.set(globalThis.navigation.currentEntry.key, scrollY);
});
live.onChange(() => {
  showStatus();
  showSections();
});
showStatus();
keepTimes();
watchSelection();
show();
void live.run();
