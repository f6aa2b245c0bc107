import { ask } from "../parts/dialogs.js";
import { accountLink, badge, button, heading, noteChange, table, view } from "../parts/elements.js";
import { count } from "../parts/format.js";
import { follow, pagedList } from "../parts/lists.js";
import { exactly, time } from "../parts/times.js";

/**
 * The bans in force. They are read again when the live figures say that they changed, and when the
 * gateway is another one, which counts its editions from 1 again.
 */
export function bansView({ api, live }) {
  const list = pagedList({ api, path: "/api/bans", draw: (bans) => bansTable(rowsOf(bans)) });
  const rowsOf = (bans) =>
    bans.map(({ account, environment, until, offences, lost }) => [
      accountLink(account),
      environment,
      [exactly(time(until)), " ", lost && lostBadge()],
      count(offences),
      button("Lift", () => liftBan(api, account, list.reload), "", `lift ${account}`),
    ]);
  const stateOf = ({ figures }) => JSON.stringify([figures?.bans.inForce, figures?.bans.edition]);
  const { soon, ends } = follow({ live, stateOf, reload: list.reload });
  return view(
    [...ends, live.onRoutes(soon)],
    heading(
      "Bans",
      "Accounts that went on after their quota was used up, or were banned by hand. A ban ends by itself.",
      button("Refresh", list.reload),
    ),
    list.element,
  );
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

/** Marks a ban that the store does not have: it holds at the gateways that know it, until they end. */
export function lostBadge() {
  return badge("not in the store", "warn");
}

/** Asks for confirmation, lifts the ban of an account, and then calls `after`. */
export async function liftBan(api, account, after) {
  const done = await ask({
    title: `Lift the ban of ${account}?`,
    text: "Its requests are judged by its quota again, at once.",
    verb: "Lift the ban",
    run: () => api.send("DELETE", `/api/bans/${encodeURIComponent(account)}`),
  });
  if (done === undefined) return;
  noteChange(`The ban of ${account} is lifted`, done);
  await after();
}
