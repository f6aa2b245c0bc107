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
  terminal: Terminal,
  names: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const texts = rows.map((row) => row.map(String));
  const widths = names.map((name, i) =>
    texts.reduce((width, row) => Math.max(width, row[i]?.length ?? 0), name.length),
  );
  const right = names.map((_, i) => rows.every((row) => typeof row[i] === "number"));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => (right[i] ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join("  ")
      .trimEnd();
  const { bold } = styleOf(terminal);
  return [bold(line(names)), ...texts.map(line)].map((text) => `${text}\n`).join("");
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
