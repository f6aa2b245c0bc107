import { EVENTS } from "../../src/telemetry/log/events.ts";
import { LOG_EVENTS, type LogEventRow } from "../../src/telemetry/log/log-events.ts";
import { madeFrom, table } from "./table.ts";

/** The text of docs/reference/events.md: every event, and every other line but that of a request. */
export function eventsPage(): string {
  return `# Events

${madeFrom("src/telemetry/log/events.ts and log-events.ts")}

What the gateway reports beside requests: events, for people and alarms, and all other lines of the log. Every name on
this page is stable, so an alarm can wait for it. [Troubleshooting](../troubleshooting.md#events-and-lines-of-the-log)
says what to do about each event, and each other line that is a warning or an error.

## Kinds

An event is a line of the [log](log.md) with \`"msg":"event"\`, its \`kind\`, and the \`gateway\` that reports it:

\`\`\`json
{"level":"info","time":1795204800123,"kind":"quota","gateway":"api-1","account":"acme","env":"production","plan":"free","window":"day","percent":80,"used":800,"limit":1000,"reset":1795219200,"msg":"event"}
\`\`\`

| kinds | reported by | how often |
|---|---|---|
| \`quota\`, \`overage\`, \`ban\` | the gateway whose request crossed the line; for \`overage\` that a change began, the gateway that is first to set a marker in the store | once over all gateways |
| \`key_…\`, \`account_changed\`, \`sunset\` | the gateway that is first to set a marker in the store, which need not be the one that made the change | once over all gateways that share the store; changes from before the start of every gateway are not reported |
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
- Answer with 2xx to accept it. Any other answer, a redirect too, is tried again after 1 s, then with longer pauses of
  up to 5 minutes, for 24 hours. Repetitions have the same id and the same body, so use the id to skip what you have
  already seen.
- The log says \`events_unsent\` once, with the reason, until a message is accepted again. A reload that changes \`url\`
  or \`secret\` sends what waits at once, usage events too. A call under way is cut and sent again with the same id, so that
  both receivers may get it.
- At most 10,000 events wait. Further ones are counted in \`tollgate_events_dropped_total\`. Events that wait are lost at a
  restart. With several [workers](../operations.md#several-processes) the process that watches sends those of all, and
  one that is killed loses at most its last half second. No request waits for an event.

${USAGE_EVENTS}

## Other lines

Every line that is neither an event nor a [request](log.md), by its \`msg\`. \`why\` is always in words for people. No line
holds a key, a token or a password.

${table(["msg", "level", "members", "meaning"], rowsOf(LOG_EVENTS))}
`;
}

const USAGE_EVENTS = `## Usage events

With \`history\` in the [configuration](../configuration.md) and the kind \`usage\` in \`events.kinds\`, or \`all\`, each
account is told of once for each day that is [closed](history.md#days) and has any usage. These events go to the same URL,
signed in the same way, in messages of their own: up to 100 [CloudEvents 1.0](https://cloudevents.io), as
\`application/cloudevents-batch+json\`.

\`\`\`json
[
  {
    "specversion": "1.0",
    "type": "tollgate.usage",
    "source": "/tollgate/tg",
    "id": "production:acme:2026-10-21",
    "time": "2026-10-21T23:59:59Z",
    "subject": "acme",
    "datacontenttype": "application/json",
    "data": {
      "environment": "production", "account": "acme", "plan": "pro", "day": "2026-10-21",
      "admitted": 1200, "units": 1450, "refused": 3, "overage": 450
    }
  }
]
\`\`\`

- \`id\` is the environment, the account and the day, and the same day always makes the same event. \`source\` ends with
  \`storePrefix\`: a receiver that remembers both counts no unit twice, and none of [another store](../billing.md) too few.
  \`subject\` is the account, \`time\` the last second of the day, and \`data\` a row of the [history](history.md#days).
- \`overage\` is there where a plan includes units of a month: the units of the day above them, counted from the first
  day of the month of the account, by the plan of that day. Where days of that month are [no longer kept](history.md#overage),
  \`overageUnknown\` is there in its place, and tells why. \`usage --month\` counts a whole month by the plan of its last day, which
  differs where the plan changed.
- \`meters\` is there where the account used any: the units of each [meter](meters.md), such as \`{"tokens":81000}\`.
- They are read from the history when they are sent and held nowhere. What the receiver has acknowledged with a status of
  2xx is marked in the store; the rest is sent again, after 1 s, then up to every 5 min, for as long as the history is
  kept, whatever restarts meanwhile. The first time the whole history is sent.
- A receiver that stores a message and dies before it answers gets it again, with the same \`webhook-id\` where it is
  cut in the same way, and always with the same ids.
- A message that is not acknowledged is sent again by halves, down to single events. An event that is refused alone is
  set aside until the others are through, and its account and day are in the \`usage_unsent\` line. The days of an
  account come in order.
- Of several gateways on one Redis one sends at a time. Another goes on within 40 s where that one is gone.
- \`refused\` is what was counted when the event was made: a gateway that was cut off from the store adds later.

[Billing](../billing.md) makes events of Stripe and OpenMeter of them.`;

function rowsOf(rows: Readonly<Record<string, LogEventRow>>): string[][] {
  return Object.entries(rows).map(([name, { level, members, meaning }]) => [
    `\`${name}\``,
    level,
    members.map((member) => `\`${member}\``).join(", "),
    meaning,
  ]);
}
