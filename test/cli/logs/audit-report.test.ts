import assert from "node:assert/strict";
import { it } from "vitest";
import type { Terminal } from "../../../src/cli/framework/terminal.ts";
import { type AuditReport, printAudit } from "../../../src/cli/logs/audit-report.ts";
import type { Balance } from "../../../src/cli/logs/balance.ts";

const BALANCE: Balance = {
  ...{ account: "acme", environment: "production", window: "day", verdict: "drift" },
  ...{ charged: 10, counted: 12, reset: 1, open: 3, drift: 2 },
};
const FIRST_MS = Date.UTC(2026, 6, 15, 12);
const REPORT: AuditReport = {
  ...{ accounts: 1, charged: 1, matched: 1, explained: [], drift: [], notCompared: [], open: [] },
  ...{ missing: [], span: { firstMs: FIRST_MS, lastMs: FIRST_MS + 61_000 }, passes: true },
};

function printed(change: Partial<AuditReport>, asJson = false): string {
  let text = "";
  const out = (more: string) => {
    text += more;
  };
  printAudit(
    { ...REPORT, ...change },
    { isTty: false, env: {}, out } as unknown as Terminal,
    asJson,
  );
  return text;
}

it("an audit says what it read, what matched, and that the store counts what was charged", () => {
  assert.equal(
    printed({}),
    `1 unit in the logs, from 2026-07-15 12:00:00Z to 2026-07-15 12:01:01Z
1 account: 1 period matched, 0 explained, 0 with drift, 0 not compared
What was charged is what the store counts
`,
  );
});

it("an audit says nothing of what matches where nothing was compared, and has no span without lines", () => {
  const span = undefined;
  assert.equal(
    printed({ ...{ accounts: 2, charged: 0, matched: 0, span }, missing: ["one part", "another"] }),
    `0 units in the logs
2 accounts: 0 periods matched, 0 explained, 0 with drift, 0 not compared
Missing: one part
Missing: another
`,
  );
});

it("an audit shows drift to the unit, and each reason once with those whom it is of", () => {
  const because = (account: string, why: string): Balance => ({ ...BALANCE, account, why });
  const explained = [
    ...[because("a", "reset"), because("b", "reset"), because("c", "lost")],
    { ...because("a", "reset"), window: "month" },
  ];
  const notCompared = [{ window: "2026-07-14", why: "there is no history" }];
  assert.equal(
    printed({ drift: [BALANCE], explained, notCompared }),
    `1 unit in the logs, from 2026-07-15 12:00:00Z to 2026-07-15 12:01:01Z
1 account: 1 period matched, 4 explained, 1 with drift, 1 not compared
Drift:
ACCOUNT  ENVIRONMENT  PERIOD  CHARGED  COUNTED  RESET  OPEN  DRIFT
acme     production   day          10       12      1     3      2
Explained:
ACCOUNT     PERIOD  WHY
2 accounts  day     reset
c           day     lost
a           month   reset
Not compared:
ACCOUNT  PERIOD      WHY
all      2026-07-14  there is no history
`,
  );
  const agree = /\nWhat was charged is what the store counts\n/;
  assert.match(printed({ matched: 0, explained }), agree);
  const fewer = [...explained, { ...because("d", "9 units fewer"), counted: 3 }];
  const differ = /\nWhat was charged is what the store counts, but for what is explained\n/;
  assert.match(printed({ matched: 0, explained: fewer }), differ);
});

it("an audit as JSON has its span in seconds, or null, and not how it ends", () => {
  const { span: _, passes: __, ...told } = REPORT;
  const from = FIRST_MS / 1_000;
  assert.deepEqual(JSON.parse(printed({}, true)), { ...told, from, to: from + 61 });
  const nothing = JSON.parse(printed({ span: undefined }, true));
  assert.deepEqual(nothing, { ...told, from: null, to: null });
});
