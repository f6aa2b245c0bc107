import { REFUSALS, type RefusalField } from "../../src/core/refusal-table.ts";
import { madeFrom, table } from "./table.ts";

/** The text of docs/reference/refusals.md: every code with all that its row says. */
export function refusalsPage(): string {
  const rows = Object.entries(REFUSALS).map(([code, row]) => {
    const fields: readonly RefusalField[] = row.fields;
    return [
      String(row.status),
      `\`${code}\``,
      row.when,
      fields.map((name) => `\`${name}\``).join(", "),
      row.closes ? "yes" : "",
      row.message,
    ];
  });
  return `# Refusals

${madeFrom("src/core/refusal-table.ts")}

Every code that the gateway itself answers with, in the [shape](http.md#refusals)
\`{"code","message","status"}\`. Any refusal ends the connection too where a body is
[left unread](edge.md#unread-bodies), where an address is past its
[failure allowance](http.md#failure-allowance), and during a [drain](edge.md#drain).

${table(["status", "code", "when", "fields beyond the usual", "ends the connection", "message"], rows)}
`;
}
