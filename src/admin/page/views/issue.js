import { ask, open } from "../parts/dialogs.js";
import { button, el, unheard } from "../parts/elements.js";
import { splitList } from "../parts/format.js";
import { parseLimits } from "../parts/limits.js";

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
function wanted({ scopes, limits = "", caps, ...texts }) {
  const lists = { scopes: splitList(scopes), limits: parseLimits(limits), caps: parseLimits(caps) };
  const given = [
    ...Object.entries(texts).filter(([, text]) => text !== ""),
    ...Object.entries(lists).filter(([, list]) => Object.keys(list).length > 0),
  ];
  return Object.fromEntries(given);
}

/** What may follow for a new key of which not every gateway or worker has heard. */
export const REFUSED = "this key may be refused";

/**
 * Shows a new key once, and who has not heard of it, with what follows: `Api.send` gave both. It is
 * kept nowhere else and cannot be shown again after the dialog closes.
 */
export function showKey({ value: { id, key, account }, missing }, follows = REFUSED) {
  const build = (close) => {
    const shown = el("input", {
      type: "text",
      readonly: true,
      value: key,
      "aria-label": "The key",
    });
    // What is outside of a modal dialog is inert: a screen reader says nothing of the notes there.
    const told = el("p", { class: "hint", role: "status" });
    const copy = async () => {
      shown.focus();
      shown.select();
      const isCopied = (await isWritten(key)) || document.execCommand("copy");
      told.textContent = isCopied
        ? "Copied"
        : "The browser did not copy the key: it is selected, copy it by hand";
    };
    return el(
      "div",
      {},
      el(
        "p",
        { class: "words" },
        `Key ${id} of account ${account}. It is shown this once: `,
        el("strong", {}, "store it now."),
      ),
      el("div", { class: "key" }, shown, button("Copy", copy)),
      told,
      missing !== null && el("p", {}, unheard(missing, follows)),
      el(
        "div",
        { class: "buttons" },
        button("I have stored it", () => close(), "primary"),
      ),
    );
  };
  return open({ title: "The new key", build, closable: false });
}

/** Whether the clipboard took the text. A browser has none for a page by http, and may refuse it. */
async function isWritten(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
