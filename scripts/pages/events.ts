import { EVENTS } from "../../src/telemetry/log/events.ts";
import { LOG_EVENTS, type LogEventRow } from "../../src/telemetry/log/log-events.ts";
import { madeFrom, table } from "./table.ts";

/** The text of docs/reference/events.md: every event, and every other line but that of a request. */
export function eventsPage(): string {
  return `# Events

${madeFrom("src/telemetry/log/events.ts and log-events.ts")}

What the gateway reports beside requests: events, for people and alarms, and all other lines of the log. Every name on
this page is stable, so an alarm can wait for it. [Troubleshooting](../troubleshooting.md#events-and-lines-of-the-log)
says what to do about each.

## Kinds

An event is a line of the [log](log.md) with \`"msg":"event"\`, its \`kind\`, and the \`gateway\` that reports it:

\`\`\`json
{"level":"info","time":1795204800123,"kind":"quota","gateway":"api-1","account":"acme","env":"production","plan":"free","window":"day","percent":80,"used":800,"limit":1000,"reset":1795305600,"msg":"event"}
\`\`\`

| kinds | reported by | how often |
|---|---|---|
| \`quota\`, \`overage\`, \`ban\` | the gateway whose request crossed the line | once over all gateways |
| \`key_…\`, \`account_changed\`, \`sunset\` | the gateway that is first to set a marker in the store, whoever made the change | once over all gateways that share the store; changes from before the start of every gateway are not reported |
| \`upstream_…\`, \`store_…\`, \`config_…\` | each gateway that is concerned | once by each |

${table(["kind", "level", "members", "meaning"], rowsOf(EVENTS))}

## Webhooks

To send events to a URL as well, set \`events\` in the [configuration](../configuration.md#events):

\`\`\`yaml
events:
  url: https://hooks.example.com/tollgate
  secret: \${WEBHOOK_SECRET}
  kinds: [ban, quota, upstream_down, store_away]
\`\`\`

- Events are sent with POST and signed as [Standard Webhooks](https://www.standardwebhooks.com) say, in \`webhook-id\`,
  \`webhook-timestamp\` and \`webhook-signature\` (\`v1\`, HMAC-SHA256).
- The body is \`{"type":"tollgate.events","timestamp":…,"data":{"events":[…]}}\` with up to 100 events. Each event has
  \`kind\`, \`time\` in Unix milliseconds, \`gateway\`, and the members above.
- Answer with 2xx to accept it. Any other answer is tried again after 1 s, then with longer pauses of up to 5 minutes,
  for 24 hours. Repetitions have the same id and the same body, so use the id to skip what you have already seen.
- At most 10,000 events wait. Further ones are counted in \`tollgate_events_dropped_total\`. Events that wait are lost at a
  restart. No request waits for an event.

## Other lines

Every line that is neither an event nor a [request](log.md), by its \`msg\`. \`why\` is always in words for people. No line
holds a key, a token or a password.

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
