import { el, failure, fillOnce, table } from "../parts/elements.js";
import { count, counted } from "../parts/format.js";
import { without } from "../parts/lists.js";

/** Draws the usage of an account by UTC day, the newest first: the last 30 days. */
export async function drawDays({ page, id, days }) {
  let read;
  try {
    read = await page(`/api/history?account=${encodeURIComponent(id)}`);
  } catch (error) {
    // A history that is switched off is not a failure. An account without a key has no history.
    const isOff = error.status === 409 || error.status === 404;
    const off = isOff && el("p", { class: "empty words" }, error.message);
    return fillOnce(days, error.message, () => [off || failure(error)]);
  }
  const { items, missing } = read;
  return fillOnce(days, [items, missing], () => [
    daysTable(items, missing),
    missing !== null && without(missing),
  ]);
}

/** That there was no usage is not known of the workers that are missing. */
function daysTable(rows, missing) {
  const most = Math.max(1, ...rows.map(({ units }) => units));
  const meters = [...new Set(rows.flatMap((row) => Object.keys(row.meters ?? {})))];
  return table({
    label: "Usage by day",
    columns: [
      { name: "Day (UTC)" },
      { name: "Units", class: "number" },
      { name: "Of the busiest day", class: "wide bar" },
      { name: "Admitted", class: "number" },
      { name: "Refused", class: "number" },
      ...meters.map((name) => ({ name, class: "number" })),
      { name: "Plan", class: "wide" },
    ],
    rows: rows.toReversed().map((row) => rowOf(row, most, meters)),
    empty: missing === null ? "Nothing was used in the last 30 days." : "",
  });
}

function rowOf({ day, units, admitted, refused, plan, meters: used = {} }, most, meters) {
  const label = `${counted(units, "unit")} on ${day}`;
  return [
    day,
    count(units),
    el("meter", { min: 0, max: most, value: units, "aria-label": label }),
    count(admitted),
    count(refused),
    ...meters.map((name) => count(used[name] ?? 0)),
    plan,
  ];
}
