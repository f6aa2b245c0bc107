import { REFUSALS, type RefusalRow } from "../../src/core/refusal-table.ts";
import { madeFrom, table } from "./table.ts";

/** The text of docs/reference/refusals.md: every code with all that its row says. */
export function refusalsPage(): string {
  const rows = Object.entries<RefusalRow>(REFUSALS).map(([code, row]) => {
    return [
      String(row.status),
      `\`${code}\``,
      row.note === undefined ? row.when : `${row.when}; ${row.note}`,
      row.fields.map((name) => `\`${name}\``).join(", "),
      row.closes ? "yes" : "",
      row.message,
    ];
  });
  return `# Refusals

${madeFrom("src/core/refusal-table.ts")}

Every code with which the gateway itself answers, and when. [Troubleshooting](../troubleshooting.md#codes-that-clients-get) has the
causes of each and what to do. A refusal is JSON with \`code\`, \`message\` and \`status\` ([shape](http.md#refusals)):

\`\`\`text
HTTP/1.1 429 Too Many Requests
X-RateLimit-Limit: 60
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1795206360
X-RateLimit-Window: minute
Retry-After: 12

{"code":"rate_limited","message":"The minute limit, 60 units, is used up: retry after the time in Retry-After","status":429}
\`\`\`

Each refusal with "yes" in its row ends the connection. Any other one ends it too if a body is
[left unread](edge.md#unread-bodies), if it is a 401 and the address is past its
[failure allowance](http.md#failure-allowance), if the method is CONNECT or TRACE, if a [WebSocket](edge.md#upgrade) was
asked for, and during a [drain](edge.md#drain).

${table(["status", "code", "when", "fields beyond the usual", "ends the connection", "message"], rows)}
`;
}
