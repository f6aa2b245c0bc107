import { createKey, works } from "./accounts.js";
import { drawDays } from "./days.js";
import { ask, showKey } from "./dialogs.js";
import {
  badge,
  button,
  el,
  failure,
  fill,
  fillKept,
  heading,
  note,
  section,
  table,
} from "./elements.js";
import { limits, parseLimits, time } from "./format.js";
import { pagedList } from "./lists.js";
import { drawUsage, drawWhy } from "./standing.js";

const USAGE_EVERY_MS = 2_000;
/** Another operator may change the account while this page is open. */
const ACCOUNT_EVERY_MS = 10_000;

/** One account: its state, its keys, and all operations on it. */
export function accountView({ api, live, id }) {
  const content = el("div", {}, el("p", { class: "empty" }, "Loading…"));
  const [head, usage, why, days] = ["", "", "", ""].map(() => el("div", {}));
  let keys;
  const showUsage = () => drawUsage({ api, id, usage, reload: load });
  const load = async () => {
    try {
      const account = await api.get(`/api/accounts/${encodeURIComponent(id)}`);
      drawHead({ api, account, head, reload: load });
      if (keys === undefined) {
        keys = keysOf(api, account, () => load());
        const parts = [section("Where it stands", usage, why), section("Keys", keys.element)];
        fill(content, head, ...parts, section("Usage by day", days));
      } else void keys.reload();
      await showUsage();
      await drawDays({ api, id, days });
      if (api.has("GET /api/bans/:id")) await drawWhy({ api, id, why });
    } catch (error) {
      keys = undefined;
      delete head.dataset.shown;
      fill(content, ...absent(id, error, load));
    }
  };
  void load();
  const timers = [
    setInterval(() => document.hidden || void showUsage(), USAGE_EVERY_MS),
    setInterval(() => document.hidden || void load(), ACCOUNT_EVERY_MS),
  ];
  const end = live.onRoutes(load);
  const close = () => {
    for (const timer of timers) clearInterval(timer);
    end();
  };
  return { element: content, close };
}

function absent(id, error, again) {
  if (error.status !== 404) return [failure(error, again)];
  return [heading(id), el("p", { class: "empty" }, "There is no such account.")];
}

/** Draws the title, the state and the buttons. Redraws only if something has changed. */
function drawHead({ api, account, head, reload }) {
  const acts = ACTS.filter(({ route, when }) => when(account) && api.has(route));
  const text = JSON.stringify([account, acts.length]);
  if (head.dataset.shown === text) return;
  head.dataset.shown = text;
  const { account: id, environment, plan, meta } = account;
  const more = button("Add key", async () => {
    if (await createKey(api, { account: id, environment, plan })) await reload();
  });
  const buttons = acts.map((act) => {
    return button(act.title, () => perform(api, account, act, reload), act.danger ? "danger" : "");
  });
  const labels = Object.entries(meta).map(([name, value]) => `${name}=${value}`);
  fillKept(
    head,
    el("p", { class: "back" }, el("a", { href: "#/accounts" }, "All accounts")),
    heading(id, leadOf(account), more, ...buttons),
    labels.length > 0 && el("p", { class: "hint words" }, labels.join(" · ")),
  );
}

function leadOf({ plan, environment, limits: own, suspended }) {
  const text = Object.keys(own).length > 0 ? `, by agreement ${limits(own)}` : "";
  return el(
    "span",
    {},
    `${plan} in ${environment}${text} `,
    suspended && badge("suspended", "bad"),
    suspended?.reason && ` ${suspended.reason}`,
    suspended?.until && [" until ", time(suspended.until)],
  );
}

/** All operations on a whole account. Each asks for confirmation first. */
const ACTS = [
  {
    route: "PATCH /api/accounts/:id",
    title: "Change plan",
    text: "For all of its keys, at once. Counts, strikes and bans stay; the running window takes the new limit.",
    when: () => true,
    fields: async ({ plan }, api) => {
      const options = (await api.get("/api/plans")).map((one) => one.plan);
      return [{ name: "plan", label: "Plan", options, value: plan }];
    },
  },
  {
    route: "PATCH /api/accounts/:id",
    title: "Change limits",
    text: "Its own limits, in place of those of the plan, for all of its keys, at once. Counts, strikes and bans stay.",
    when: () => true,
    fields: ({ limits: own }) => [
      {
        name: "limits",
        label: "Limits of its own",
        value: Object.entries(own)
          .map(([window, limit]) => `${window}=${limit}`)
          .join(", "),
        placeholder: "minute=500, day=20000",
        hint: "Empty: those of the plan alone.",
      },
    ],
    body: ({ limits: text = "" }) => ({ limits: parseLimits(text), dropLimits: true }),
  },
  {
    route: "POST /api/accounts/:id/reset",
    title: "Reset usage",
    text: "Every running window goes back to 0. Bans, strikes and history stay.",
    danger: true,
    when: () => true,
  },
  {
    route: "POST /api/bans",
    title: "Ban",
    text: "Its requests are refused with 429 for this time. It counts as no offence.",
    fields: [
      { name: "for", label: "For", value: "1h", required: true, hint: "Such as 10m or 24h." },
      { name: "reason", label: "Reason", hint: "For people; the account's clients do not see it." },
    ],
    danger: true,
    when: () => true,
  },
  {
    route: "POST /api/accounts/:id/suspend",
    title: "Suspend",
    text: "Every request of its keys is refused with 403, and its tunnels end, until it is resumed.",
    fields: [
      { name: "reason", label: "Reason", hint: "For people; the account's clients do not see it." },
      { name: "for", label: "For", placeholder: "24h", hint: "Empty: until it is resumed." },
    ],
    danger: true,
    when: ({ state }) => state !== "suspended",
  },
  {
    route: "POST /api/accounts/:id/resume",
    title: "Resume",
    text: "Its keys work again at once.",
    when: ({ state }) => state === "suspended",
  },
];

/** Asks for the fields of an operation and performs it. Empty fields are left out of the body. */
async function perform(api, account, { route, title, text, danger, fields, body }, reload) {
  const { account: id } = account;
  const [method, path] = route.replace(":id", encodeURIComponent(id)).split(" ");
  const named = route.includes(":id") ? {} : { id };
  const given = (values) => Object.fromEntries(Object.entries(values).filter(([, one]) => one));
  const run = (values) => {
    return api.send(method, path, { ...named, ...(body?.(values) ?? given(values)) });
  };
  const done = await ask({
    title: `${title}: ${id}`,
    text,
    fields: typeof fields === "function" ? await fields(account, api) : fields,
    verb: title,
    danger,
    run,
  });
  if (done === undefined) return;
  note(`${title}: done`);
  await reload();
}

/** The keys of an account, the newest first. */
function keysOf(api, { account }, reload) {
  const query = new URLSearchParams({ account, order: "newest" });
  const draw = (keys) => keysTable({ api, keys, reload });
  return pagedList({ api, path: `/api/keys?${query}`, draw });
}

function keysTable({ api, keys, reload }) {
  const tellsUse = keys.some(({ lastUsed }) => lastUsed !== undefined);
  const columns = [
    { name: "Key" },
    { name: "State" },
    { name: "Scopes", class: "wide" },
    { name: "Created", class: "wide" },
    tellsUse && { name: "Last used", class: "wide" },
    { name: "Actions" },
  ].filter(Boolean);
  const rows = keys.map((key) =>
    [
      el(
        "div",
        {},
        el("span", { class: "id" }, key.id),
        key.name && el("div", { class: "names" }, key.name),
      ),
      stateOf(key),
      key.scopes.join(", ") || "–",
      time(key.created),
      tellsUse && (key.lastUsed ?? "–"),
      works(key) ? actsOf({ api, key, reload }) : "–",
    ].filter((cell) => cell !== false),
  );
  return table({ label: "Keys", columns, rows, empty: "This account has no key." });
}

function actsOf({ api, key, reload }) {
  return el(
    "div",
    { class: "buttons" },
    button("Rotate", () => rotate(api, key, reload), "", `rotate ${key.id}`),
    button("Revoke", () => revoke(api, key, reload), "danger", `revoke ${key.id}`),
  );
}

function stateOf(key) {
  if (key.revoked !== null) return el("span", {}, badge("revoked"), " ", time(key.revoked));
  if (!works(key)) return el("span", {}, badge("expired"), " ", time(key.expires));
  if (key.expires === null) return badge("works", "good");
  return el("span", {}, badge("works", "good"), " ends ", time(key.expires));
}

async function rotate(api, { id, account }, reload) {
  const issued = await ask({
    title: `Rotate key ${id}?`,
    text: `A new key takes its place, for the same account ${account}. The old one works on for the grace.`,
    fields: [
      {
        name: "grace",
        label: "Grace",
        value: "24h",
        required: true,
        hint: "Such as 0s, 1h or 7d.",
      },
    ],
    verb: "Rotate",
    run: ({ grace }) => api.send("POST", `/api/keys/${id}/rotate`, { grace }),
  });
  if (issued === undefined) return;
  await showKey(issued);
  await reload();
}

async function revoke(api, { id, name }, reload) {
  const done = await ask({
    title: `Revoke key ${id}?`,
    text: `${name ? `“${name}”. ` : ""}Every request with it is refused within a second. A revoked key never works again.`,
    verb: "Revoke",
    danger: true,
    run: () => api.send("POST", `/api/keys/${id}/revoke`),
  });
  if (done === undefined) return;
  note(`Key ${id} is revoked`);
  await reload();
}
