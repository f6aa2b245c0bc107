import { ask } from "./dialogs.js";
import { button, el, failure, fill, heading, note, table } from "./elements.js";
import { count, time } from "./format.js";

/** The bans in force; read again whenever the live figures say that they changed. */
export function bansView({ api, live }) {
  const content = el("div", {}, el("p", { class: "empty" }, "Loading…"));
  const load = async () => {
    try {
      const bans = await api.all("/api/bans");
      const rows = bans.map(({ account, environment, until, offences }) => [
        el("a", { class: "id", href: `#/accounts/${encodeURIComponent(account)}` }, account),
        environment,
        time(until),
        count(offences),
        button("Lift", () => liftBan(api, account, load)),
      ]);
      fill(content, bansTable(rows));
    } catch (error) {
      fill(content, failure(error, load));
    }
  };
  let seen = "";
  const end = live.onChange(({ figures }) => {
    const now = JSON.stringify(figures?.bans);
    if (now !== seen && seen !== "") void load();
    seen = now;
  });
  void load();
  return {
    element: el(
      "div",
      {},
      heading(
        "Bans",
        "Accounts that went on after their quota was used up. A ban ends by itself.",
        button("Refresh", load),
      ),
      content,
    ),
    close: end,
  };
}

function bansTable(rows) {
  return table({
    label: "Bans",
    columns: [
      { name: "Account" },
      { name: "Environment", class: "wide" },
      { name: "Ends" },
      { name: "Offences", class: "number wide" },
      { name: "Actions" },
    ],
    rows,
    empty: "No account is banned.",
  });
}

/** Asks, lifts the ban of an account, and then calls `after`. */
export async function liftBan(api, account, after) {
  const done = await ask({
    title: `Lift the ban of ${account}?`,
    text: "Its requests are judged by its quota again, at once.",
    verb: "Lift the ban",
    run: () => api.send("DELETE", `/api/bans/${encodeURIComponent(account)}`),
  });
  if (done === undefined) return;
  note(`The ban of ${account} is lifted`);
  await after();
}
