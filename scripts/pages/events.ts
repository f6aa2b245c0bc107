import { EVENTS } from "../../src/telemetry/log/events.ts";
import { LOG_EVENTS, type LogEventRow } from "../../src/telemetry/log/log-events.ts";
import { madeFrom, table } from "./table.ts";

/** The text of docs/reference/events.md: every event, and every other line but that of a request. */
export function eventsPage(): string {
  return `# Events

${madeFrom("src/telemetry/log/events.ts and log-events.ts")}

## Kinds

An event is a line of the [log](log.md) with \`"msg":"event"\`, its \`kind\` and the \`gateway\` that tells it. \`quota\` and \`ban\` are told by the
gateway whose request crossed the line, so once over all gateways, without a command to the store. \`key_…\`,
\`account_changed\` and \`sunset\` are told by the gateway that is the first to set a marker in the store, so once over
all that share one, whether a command, the admin API or somebody else made the change; changes from before the
start of every gateway are not told. \`upstream_…\`, \`store_…\` and \`config_…\` are told by each gateway that they
concern. The kinds are stable: an alarm can wait for one.

${table(["kind", "level", "members", "meaning"], rowsOf(EVENTS))}

## Webhooks

With \`events\` in the [configuration](../configuration.md) each event goes to a URL too, with POST and signed as
[Standard Webhooks](https://www.standardwebhooks.com) say: \`webhook-id\`, \`webhook-timestamp\` and
\`webhook-signature\` (\`v1\`, HMAC-SHA256). The body is
\`{"type":"tollgate.events","timestamp":…,"data":{"events":[…]}}\` with up to 100 events, each with \`kind\`, \`time\` in
Unix milliseconds, \`gateway\`, and the members above. A status of 2xx takes it; anything else is tried again
after 1 s, then up to every 5 min, for 24 h, with the same id and the same body: at least once, so look at the id.
10,000 events are held, and what comes on top is counted in \`tollgate_events_dropped_total\`. What is held is
lost at a restart. No request waits for any of it.

## Other lines

Every line that is neither an event nor a [request](log.md), by its \`msg\`. These names are stable too. \`why\` is always
words for people, and no line holds a key, a token or a password.

${table(["msg", "level", "members", "meaning"], rowsOf(LOG_EVENTS))}
`;
}

function rowsOf(rows: Readonly<Record<string, LogEventRow>>): string[][] {
  return Object.entries(rows).map(([name, { level, members, meaning }]) => [
    `\`${name}\``,
    level,
    members.map((member) => `\`${member}\``).join(", "),
    meaning,
  ]);
}
