import type { Terminal } from "./terminal.ts";

/** Bold and dim on a terminal that supports them (https://no-color.org), plain text elsewhere. */
export function styleOf({ env, isTty }: Pick<Terminal, "env" | "isTty">) {
  const wanted = isTty && !env.NO_COLOR && env.TERM !== "dumb";
  const style = (code: number) => (text: string) => (wanted ? `\x1b[${code}m${text}\x1b[0m` : text);
  return { bold: style(1), dim: style(2) };
}

/**
 * Aligned columns with their names; each line ends in a newline. Numbers are aligned to the right.
 */
export function formatTable(
  terminal: Pick<Terminal, "env" | "isTty">,
  names: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const texts = rows.map((row) => row.map(String));
  const widths = names.map((name, i) =>
    texts.reduce((width, row) => Math.max(width, widthOf(row[i] ?? "")), name.length),
  );
  const right = names.map((_, i) => rows.every((row) => typeof row[i] === "number"));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => {
        const space = " ".repeat(Math.max(0, (widths[i] ?? 0) - widthOf(cell)));
        return right[i] ? space + cell : cell + space;
      })
      .join("  ")
      .trimEnd();
  const { bold } = styleOf(terminal);
  return [bold(line(names)), ...texts.map(line)].map((text) => `${text}\n`).join("");
}

/**
 * Matches what terminals show two columns wide: emoji, and the letters and signs of the scripts of
 * Unicode's East Asian Width (https://www.unicode.org/reports/tr11/), but for their halfwidth forms.
 */
const WIDE =
  /[\uff01-\uff60\uffe0-\uffe6\p{RGI_Emoji}[[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Bopo}\p{scx=Yiii}]--[\0-\u10ff\u1160-\u11ff\u303f\uff61-\uffdc\p{M}]]]/gv;
/** Matches what stands on the character before it, as accents and the end of a Korean syllable do. */
const NONE = /[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]/gu;

/** The columns that a terminal needs to show the text. Costs little, as lists have 100,000 names. */
function widthOf(text: string): number {
  if (/^[ -\u02ff]*$/.test(text)) return text.length;
  return [...text.replace(WIDE, "ww").replace(NONE, "")].length;
}

/** "minute=500 day=20000", or "" if there are none. */
export function formatPairs(members: Readonly<Record<string, string | number>>): string {
  return Object.entries(members)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

/** "  name         value" on a line for each row, below what they are about. */
export function formatFacts(title: string, rows: readonly (readonly string[])[]): string {
  const lines = rows.map(([name = "", value]) => `  ${name.padEnd(12)} ${value}\n`);
  return `${title}\n${lines.join("")}`;
}

/** An instant in Unix seconds, for people: "2026-11-21 00:09:37Z". */
export function formatInstant(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace("T", " ").replace(".000", "");
}

/**
 * Rows of comma-separated values (RFC 4180), each on a line. A value that a spreadsheet would read as
 * a formula is marked as text.
 */
export function formatCsv(rows: readonly (readonly (string | number)[])[]): string {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
