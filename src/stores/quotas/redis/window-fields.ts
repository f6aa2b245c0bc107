import {
  CAP_NUMBER_MAX,
  counterName,
  counterWindow,
  type Limit,
  SPARE_MS,
  WINDOW_ROWS,
  type WindowName,
  type WindowRow,
} from "../../../core/quota/windows.ts";

const LETTER = Object.fromEntries(
  WINDOW_ROWS.map(({ name, letter }) => [name, letter]),
) as Readonly<Record<WindowName, string>>;
const NAME = new Map(WINDOW_ROWS.map(({ name, letter }) => [letter, name]));

/** The field of a limit: `m`, of an operation `1z141m`, of a key `@17m`, of a meter `#tokensm`. */
export function windowField({ window, part }: Pick<Limit, "window" | "part">): string {
  return part === undefined ? LETTER[window] : part.id + LETTER[window];
}

/** The field of a counter's name as `counterName` returns it. */
export function counterField(counter: string): string {
  return counter.slice(0, Math.max(0, counter.indexOf("."))) + LETTER[counterWindow(counter)];
}

export type FieldParts = { readonly window: WindowName; readonly operation: string | undefined };

export function formatWindowField({ window, operation = "" }: FieldParts): string {
  return operation + LETTER[window];
}

/** The window and the operation's number of a field; undefined if the field is not a window's. */
export function parseWindowField(field: string): FieldParts | undefined {
  const window = NAME.get(field.slice(-1));
  if (window === undefined) return undefined;
  return { window, operation: field.length === 1 ? undefined : field.slice(0, -1) };
}

/** The counter of a field that the store names. */
export function fieldCounter(field: string): string {
  const { window, operation } = parseWindowField(field) as FieldParts;
  const limited = operation === undefined ? {} : { part: { id: operation, name: "" } };
  return counterName({ window, ...limited });
}

/**
 * The rows of all windows as the scripts read them: by letter its length, the instant that it is
 * aligned to, and the months of a calendar window, whose length is the longest. A function, because a
 * table would be filled again in each call.
 */
export const WINDOWS_IN_LUA = `local function row_of(letter)
${WINDOW_ROWS.map(luaRow).join("\n")}
end
local SPARE = ${SPARE_MS}
local CAP_HASHES = ${Math.ceil((CAP_NUMBER_MAX + 1) / 16)}
local WINDOW_FIELD = '^[%w-]*[${WINDOW_ROWS.map(({ letter }) => letter).join("")}]$'
`;

function luaRow({ letter, lengthMs, alignMs, months }: WindowRow): string {
  const row = months === undefined ? `${lengthMs}, ${alignMs}` : `${lengthMs}, 0, ${months}`;
  return `  if letter == '${letter}' then return ${row} end`;
}
