/**
 * Comma-separated values (RFC 4180), with the names first and each line ended. A text that a
 * spreadsheet would take for a formula is marked as text.
 */
export function formatCsv(
  names: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  return formatCsvRows([names, ...rows]);
}

/** The same without the names: rows that follow others. */
export function formatCsvRows(rows: readonly (readonly (string | number)[])[]): string {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
