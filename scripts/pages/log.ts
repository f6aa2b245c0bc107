import { ACCESS_LOG_FIELDS } from "../../src/telemetry/log/log.ts";
import { madeFrom, table } from "./table.ts";

/** The text of docs/reference/log.md: every member of the line of a request. */
export function logPage(): string {
  const rows = Object.entries(ACCESS_LOG_FIELDS).map(([name, { meaning, absent = "" }]) => {
    return [`\`${name}\``, meaning, absent];
  });
  return `# The log

${madeFrom("src/telemetry/log/log.ts")}

JSON lines on stdout. A line never holds a key, a token or a password. With several processes a line about
one of them has its number as \`worker\`. Lines about anything but a request: [events](events.md).

## The line of a request

One for each [request](http.md#request-line), at level \`info\`. The members, in their order:

${table(["member", "meaning", "absent where"], rows)}
`;
}
