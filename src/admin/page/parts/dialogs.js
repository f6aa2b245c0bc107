import { isToken } from "./api.js";
import { button, el, fill, note, returns } from "./elements.js";

/** A dialog may open over another one, and each has a title of its own. */
let opened = 0;

/**
 * Opens a dialog. It traps the keyboard focus and restores it when it closes; Escape closes it if it
 * is `closable`. `build(close)` makes its content. Resolves with the value given to `close`, undefined for Escape.
 */
export function open({ title, build, closable = true }) {
  return new Promise((resolve) => {
    let result;
    const before = document.activeElement;
    const back = { at: before };
    returns.add(back);
    opened += 1;
    const titleId = `dialog-title-${opened}`;
    const closedby = closable ? undefined : "none";
    const dialog = el("dialog", { "aria-labelledby": titleId, closedby });
    const close = (value) => {
      result = value;
      dialog.close();
    };
    fill(dialog, el("h2", { id: titleId }, title), build(close));
    // Browsers let a page refuse `cancel` only so many times. Not all of them know `closedby` yet, so
    // the key itself is refused too.
    dialog.addEventListener("cancel", (event) => closable || event.preventDefault());
    dialog.addEventListener("keydown", (event) => {
      if (!closable && event.key === "Escape") event.preventDefault();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      returns.delete(back);
      // Browsers restore the focus before this event, and somebody may have gone on since.
      if (isFocusLost()) asDrawn(before, back.at).focus();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * The element, or that of the same name if it was drawn again since, or what is in its place, or else
 * the view.
 */
function asDrawn(element, next) {
  if (element?.isConnected) return element;
  const main = document.getElementById("main");
  const named = [...main.querySelectorAll("[data-focus]")];
  const same = named.find(({ dataset }) => dataset.focus === element?.dataset.focus);
  return same ?? (next?.isConnected ? next : main);
}

/** Whether no element has the keyboard. */
function isFocusLost() {
  return [document.body, null].includes(document.activeElement);
}

/** One labelled field of a form. `options` make it a choice. */
function field({ name, label, hint, options, value, ...attributes }) {
  const id = `field-${name}`;
  const described = hint === undefined ? {} : { "aria-describedby": `${id}-hint` };
  const common = { id, name, autocomplete: "off", ...described, ...attributes };
  const control =
    options === undefined
      ? el("input", { type: "text", spellcheck: "false", ...common, value })
      : el(
          "select",
          common,
          ...options.map((one) => el("option", { value: one, selected: one === value }, one)),
        );
  return el(
    "div",
    { class: "field" },
    el("label", { for: id }, label),
    control,
    hint && el("p", { id: `${id}-hint`, class: "hint" }, hint),
  );
}

/** Says why a dialog cannot be opened. */
function tell(title, why) {
  const build = (close) =>
    el(
      "div",
      {},
      el("p", { class: "error", role: "alert" }, why),
      el(
        "div",
        { class: "buttons" },
        button("Close", () => close()),
      ),
    );
  return open({ title, build });
}

/** How often `ask` was called. */
let asked = 0;

/**
 * Asks for confirmation of an operation, with fields for its details; a function that reads them may
 * stand for them. `run(values)` performs it. If that fails, the dialog stays open and shows the
 * error. Resolves with the result of `run`, or undefined if it was not performed. A dialog whose
 * fields arrive after another one was asked for, or after its view was left, does not open.
 */
export async function ask({ fields = [], ...rest }) {
  asked += 1;
  if (typeof fields !== "function") return askWith({ fields, ...rest });
  // A search that is typed changes the address of its view.
  const view = () => location.hash.split("?")[0];
  const [mine, asker] = [asked, view()];
  const isWanted = () => mine === asked && view() === asker;
  try {
    fields = await fields();
  } catch (refused) {
    return isWanted() ? void (await tell(rest.title, refused.message)) : undefined;
  }
  return isWanted() ? askWith({ fields, ...rest }) : undefined;
}

async function askWith({ title, text, fields, verb, danger = false, run, closable = true }) {
  let running;
  const build = (close) => {
    const error = el("p", { class: "error", role: "alert" });
    const go = el("button", { type: "submit", class: danger ? "danger" : "primary" }, verb);
    const submit = async (event) => {
      event.preventDefault();
      if (running !== undefined) return;
      // A button that is disabled loses the keyboard.
      go.ariaDisabled = "true";
      error.textContent = "";
      const values = Object.fromEntries(
        [...new FormData(event.target)].map(([name, value]) => [name, String(value).trim()]),
      );
      try {
        running = run(values);
        close({ value: await running });
      } catch (refused) {
        running = undefined;
        error.textContent = refused.message;
        go.ariaDisabled = null;
        go.focus();
      }
    };
    return el(
      "form",
      { onsubmit: submit },
      text && el("p", { class: "words" }, text),
      ...fields.map(field),
      error,
      el("div", { class: "buttons" }, closable && button("Cancel", () => close()), go),
    );
  };
  const done = await open({ title, build, closable });
  if (done !== undefined || running === undefined) return done?.value;
  return running.catch(({ message }) => note(`${title}: ${message}`));
}

/** Asks for the admin token until one is given. `why` says why the last one was refused. */
export async function askToken(why) {
  const token = await askWith({
    title: "Admin token",
    text:
      why ??
      "This gateway has an admin token (admin.token in its configuration). It is kept for this tab alone.",
    fields: [
      {
        name: "token",
        label: "Token",
        type: "password",
        required: true,
        autocomplete: "current-password",
      },
    ],
    verb: "Continue",
    closable: false,
    run: async ({ token }) => {
      if (isToken(token)) return token;
      throw new Error(
        "A token has only visible ASCII characters: this one has another, perhaps an invisible one",
      );
    },
  });
  return token ?? askToken(why);
}
