import { ACCESS_LOG_FIELDS } from "../../src/telemetry/log/access-log-entry.ts";
import { madeFrom, table } from "./table.ts";

/** The text of docs/reference/log.md: every member of the line of a request. */
export function logPage(): string {
  const rows = Object.entries(ACCESS_LOG_FIELDS).map(([name, { meaning, absent = "" }]) => {
    return [`\`${name}\``, meaning, absent];
  });
  return `# The log

${madeFrom("src/telemetry/log/access-log-entry.ts")}

The log is JSON, one object a line, on stdout. This page has the line of a request; [events](events.md) has all other
lines. A line never holds a key, a token or a password. With several processes, a line about one of them has its number
as \`worker\`.

\`\`\`json
{"level":"info","time":1795204800123,"id":"0b8f4a52-5f0f-4d8c-9a53-c4c9f3a1b0de","env":"production","account":"acme","key":"k_4fPqX1mZ0aBc","plan":"free","method":"GET","route":"/v1/pets","path":"/v1/pets","status":429,"code":"rate_limited","source":"gateway","decision":"refused","charged":0,"forwards":0,"durationMs":0.4,"client":"203.0.113.7","decidedAt":1795204800122,"cost":1,"strikes":0,"config":"01234567","windows":[["minute",60,60,1795204860],["day",412,1000,1795219200]],"by":"memory","why":"the minute limit is used up","msg":"request"}
\`\`\`

[\`explain\`](verbs.md#explain) reads such a line for you:

\`\`\`sh
tollgate explain 0b8f4a52-5f0f-4d8c-9a53-c4c9f3a1b0de --log gateway.log
\`\`\`

## The line of a request

Each [request](http.md#request-line) has one line, at level \`info\`. These are its members, in their order:

${table(["member", "meaning", "absent if"], rows)}
`;
}
