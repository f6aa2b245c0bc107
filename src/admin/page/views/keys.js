import { ask } from "../parts/dialogs.js";
import { badge, button, el, noteChange, table } from "../parts/elements.js";
import { changedLimits, limits, limitsText, noteOthers } from "../parts/limits.js";
import { pagedList } from "../parts/lists.js";
import { endTime, exactly, now, time } from "../parts/times.js";
import { REFUSED, showKey } from "./issue.js";

/** The keys of an account, the newest first. */
export function keysOf(api, { account }, reload) {
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
    { name: "Limits of its own", class: "wide" },
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
      limits(key.caps) || "–",
      time(key.created),
      tellsUse && (key.lastUsed ?? "–"),
      works(key) ? actsOf({ api, key, reload }) : "–",
    ].filter((cell) => cell !== false),
  );
  return table({ label: "Keys", columns, rows, empty: "This account has no key." });
}

/** Whether a key works now, by the clock of the gateway. */
function works({ revoked, expires }) {
  return revoked === null && (expires === null || expires > now());
}

function actsOf({ api, key, reload }) {
  return el(
    "div",
    { class: "buttons" },
    button("Limits", () => changeCaps(api, key, reload), "", `limits of ${key.id}`),
    button("Rotate", () => rotate(api, key, reload), "", `rotate ${key.id}`),
    button("Revoke", () => revoke(api, key, reload), "danger", `revoke ${key.id}`),
  );
}

function stateOf(key) {
  if (key.revoked !== null)
    return el("span", {}, badge("revoked"), " ", exactly(time(key.revoked)));
  if (!works(key)) return el("span", {}, badge("expired"), " ", exactly(time(key.expires)));
  if (key.expires === null) return badge("works", "good");
  return el("span", {}, badge("works", "good"), " ends ", exactly(endTime(key.expires)));
}

async function changeCaps(api, { id, caps }, reload) {
  const done = await ask({
    title: `Limits of key ${id}`,
    text: "Of this key alone, inside its account, at once. What it has counted stays.",
    fields: [
      {
        name: "caps",
        label: "Limits of this key",
        value: limitsText(caps),
        placeholder: "day=500",
        hint: "Empty: those of the account alone.",
      },
    ],
    verb: "Change limits",
    run: async ({ caps: text }) => {
      const body = { caps: changedLimits(caps, text) };
      const done = await api.send("PATCH", `/api/keys/${id}`, body);
      noteOthers(text, done.value.caps);
      return done;
    },
  });
  if (done === undefined) return;
  noteChange(`Limits of key ${id}: changed`, done);
  await reload();
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
  await showKey(issued, `${REFUSED}, and the old one may work on after its grace`);
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
  noteChange(`Key ${id} is revoked`, done, "requests with this key may still be answered");
  await reload();
}
