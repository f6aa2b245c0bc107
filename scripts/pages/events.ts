import { LOG_EVENTS } from "../../src/telemetry/log-events.ts";
import { madeFrom, table } from "./table.ts";

/** The text of docs/reference/events.md: every line of the log but that of a request. */
export function eventsPage(): string {
  const rows = Object.entries(LOG_EVENTS).map(([name, { level, members, meaning }]) => [
    `\`${name}\``,
    level,
    members.map((member) => `\`${member}\``).join(", "),
    meaning,
  ]);
  return `# Events of the log

${madeFrom("src/telemetry/log-events.ts")}

Every line of the [log](log.md) that is not the line of a request, by its \`msg\`. The names are stable: an alarm
can wait for one. \`why\` is always words for people, and no line holds a key, a token or a password.

${table(["msg", "level", "members", "meaning"], rows)}
`;
}
