import { inOrder } from "../parts/api.js";
import { ask } from "../parts/dialogs.js";
import {
  badge,
  button,
  el,
  failure,
  fill,
  fillOnce,
  heading,
  loading,
  noteChange,
  section,
  view,
} from "../parts/elements.js";
import { changedLimits, limits, limitsText, noteOthers } from "../parts/limits.js";
import { follow, recordsEdition, recordsTrouble } from "../parts/lists.js";
import { endTime, exactly, hasEnded, time, utc } from "../parts/times.js";
import { drawDays } from "./days.js";
import { createKey } from "./issue.js";
import { keysOf } from "./keys.js";
import { drawUsage, drawWhy } from "./standing.js";

const USAGE_EVERY_MS = 2_000;
/** Reads what no figures tell of: the days, and changes at an older gateway. */
const ACCOUNT_EVERY_MS = 10_000;
/** The dialog of a ban opens without the ban that it replaces if a slow store has not told it by then. */
const BAN_TOLD_MS = 1_000;

/**
 * One account: its state, its keys, and all operations on it. Why it cannot be read is told above
 * it, and what is shown stays.
 */
export function accountView({ api, live, id }) {
  const trouble = el("div", {});
  const content = el("div", {}, loading());
  const [head, usage, why, days] = ["", "", "", ""].map(() => el("div", {}));
  const none = el("p", { class: "empty" });
  const tellNone = () => fillOnce(none, noneText(live), () => [noneText(live)]);
  let keys;
  const get = inOrder((path) => api.get(path));
  const page = inOrder((path) => api.page(path));
  const tell = (error) => {
    if (error.status === 404) {
      keys = undefined;
      fillOnce(trouble, "", () => []);
      tellNone();
      return fill(content, heading(id), none);
    }
    if (keys === undefined) fill(content);
    fillOnce(trouble, error.message, () => [failure(error, load)]);
  };
  const showUsage = () => drawUsage({ api, get, id, usage, reload: load }).catch(tell);
  /** The bans are read again when the usage tells another one than before. */
  const followUsage = async () => {
    const { ban } = usage.dataset;
    await showUsage();
    if (usage.dataset.ban !== ban) await drawWhy({ get, id, why });
  };
  const showAccount = async () => {
    const account = await get(`/api/accounts/${encodeURIComponent(id)}`);
    fillOnce(trouble, "", () => []);
    fillHead(head, { api, account, reload: load });
    if (keys !== undefined) return void keys.reload();
    keys = keysOf(api, account, () => load());
    const parts = [section("Where it stands", usage, why), section("Keys", keys.element)];
    fill(content, head, ...parts, section("Usage by day", days));
  };
  const showOthers = async () => {
    await showUsage();
    await drawDays({ page, id, days });
    await drawWhy({ get, id, why });
  };
  const load = () => showAccount().then(showOthers).catch(tell);
  const isDue = () => trouble.hasChildNodes() || hasEnded(content);
  void load();
  const timers = [
    setInterval(() => document.hidden || void (isDue() ? load() : followUsage()), USAGE_EVERY_MS),
    setInterval(() => document.hidden || void load(), ACCOUNT_EVERY_MS),
  ];
  // Another operator may change the account while this page is open.
  const reload = () => (keys === undefined ? load() : showAccount().catch(tell));
  const { ends } = follow({ live, stateOf: recordsEdition, reload });
  ends.push(
    live.onRoutes(load),
    live.onChange(tellNone),
    ...timers.map((timer) => () => clearInterval(timer)),
  );
  return view(ends, trouble, content);
}

function noneText(live) {
  const why = recordsTrouble(live);
  return why ? `No such account is found: ${why}` : "There is no such account.";
}

/** Draws the title, the state and the buttons. Redraws only if something has changed. */
function fillHead(head, { api, account, reload }) {
  const acts = ACTS.filter(({ route, when = () => true }) => when(account) && api.has(route));
  fillOnce(head, [account, acts.length], () => headOf({ api, account, acts, reload }));
}

function headOf({ api, account, acts, reload }) {
  const { account: id, meta } = account;
  const more = button("Add key", async () => {
    if (await createKey(api, id)) await reload();
  });
  const buttons = acts.map((act) => {
    return button(act.title, () => perform(api, account, act, reload), act.danger ? "danger" : "");
  });
  const labels = Object.entries(meta).map(([name, value]) => `${name}=${value}`);
  return [
    el("p", { class: "back" }, el("a", { href: "#/accounts" }, "All accounts")),
    heading(id, leadOf(account), more, ...buttons),
    labels.length > 0 && el("p", { class: "hint words" }, labels.join(" · ")),
  ];
}

function leadOf({ plan, environment, limits: own, anchor, anchorFrom, suspended }) {
  const text = Object.keys(own).length > 0 ? `, by agreement ${limits(own)}` : "";
  const months = anchor === 1 && anchorFrom === null ? "" : `, months from day ${anchor}`;
  return el(
    "span",
    {},
    `${plan} in ${environment}${text}${months}`,
    anchorFrom !== null && [" from ", time(anchorFrom), " on"],
    " ",
    suspended && badge("suspended", "bad"),
    suspended?.reason && ` ${suspended.reason}`,
    suspended?.until && [" until ", exactly(endTime(suspended.until))],
  );
}

/** All operations on a whole account, and when each is offered. Each asks for confirmation first. */
const ACTS = [
  {
    route: "PATCH /api/accounts/:id",
    title: "Change plan",
    text: "For all of its keys, at once. Counts, strikes and bans stay; the running window takes the new limit.",
    fields: async ({ plan }, api) => {
      const options = (await api.get("/api/plans")).map((one) => one.plan);
      return [{ name: "plan", label: "Plan", options, value: plan }];
    },
    body: ({ plan }, { plan: shown }) => ({ plan: changed(plan, shown, "plan") }),
  },
  {
    route: "PATCH /api/accounts/:id",
    title: "Change limits",
    text: "Its own limits, in place of those of the plan, for all of its keys, at once. Counts, strikes and bans stay.",
    fields: ({ limits: own }) => [
      {
        name: "limits",
        label: "Limits of its own",
        value: limitsText(own),
        placeholder: "minute=500, day=20000",
        hint: "Of a meter tokens.month=9000000. Empty: those of the plan alone.",
      },
    ],
    body: ({ limits: text }, { limits: own }) => ({ limits: changedLimits(own, text) }),
    after: ({ limits: text }, { limits: now }) => noteOthers(text, now),
  },
  {
    route: "PATCH /api/accounts/:id",
    title: "Change anchor",
    text: "The day on which its months begin, at 00:00 UTC. The running month stays; the next one ends on the first such day, with the whole limit. One change a month.",
    fields: ({ anchor }) => [
      {
        name: "anchor",
        label: "Day of the month",
        value: String(anchor),
        required: true,
        hint: "1 to 31; in a shorter month its last day.",
      },
    ],
    body: ({ anchor }, { anchor: shown }) => ({ anchor: changed(parseDay(anchor), shown, "day") }),
  },
  {
    route: "POST /api/accounts/:id/reset",
    title: "Reset usage",
    text: "Every running window goes back to 0. Bans, strikes and history stay.",
    danger: true,
  },
  {
    route: "POST /api/bans",
    title: "Ban",
    text: "Its requests are refused with 429 for this time, in place of a ban in force, also if that ends later. It counts as no offence.",
    fields: async ({ account }, api) => {
      const { ban } = await Promise.race([
        api.get(`/api/usage/${encodeURIComponent(account)}`).catch(() => ({})),
        new Promise((resolve) => setTimeout(resolve, BAN_TOLD_MS, {})),
      ]);
      const replaced = ban ? ` It replaces the ban until ${utc(ban.until)}.` : "";
      const hint = `Such as 10m or 24h.${replaced}`;
      return [
        { name: "for", label: "For", value: "1h", required: true, hint },
        {
          name: "reason",
          label: "Reason",
          hint: "For people; the account's clients do not see it.",
        },
      ];
    },
    told: ({ until }) => `until ${utc(until)}`,
    danger: true,
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

/**
 * Returns the value that was chosen. Throws if it is the one that was shown: somebody else may have set
 * another one since.
 */
function changed(value, shown, name) {
  if (value !== shown) return value;
  throw new Error(`Nothing to change: this is the ${name} as it was shown`);
}

/** Parses the day of a month. Throws at anything but a whole number in plain decimal. */
function parseDay(text) {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new Error(`Cannot use ${text}: expected a day of the month, as in 15`);
}

/** Asks for the fields of an operation and performs it. Empty fields are left out of the body. */
async function perform(api, account, act, reload) {
  const { route, title, text, danger, fields, body, after, told = () => "done" } = act;
  const { account: id } = account;
  const [method, path] = route.replace(":id", encodeURIComponent(id)).split(" ");
  const named = route.includes(":id") ? {} : { id };
  const given = (values) => Object.fromEntries(Object.entries(values).filter(([, one]) => one));
  const run = async (values) => {
    const sent = { ...named, ...(body?.(values, account) ?? given(values)) };
    const done = await api.send(method, path, sent);
    after?.(values, done.value);
    return done;
  };
  const done = await ask({
    title: `${title}: ${id}`,
    text,
    fields: typeof fields === "function" ? () => fields(account, api) : fields,
    verb: title,
    danger,
    run,
  });
  if (done === undefined) return;
  noteChange(`${title}: ${told(done.value)}`, done);
  await reload();
}
