import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "vitest";
import { MeterChecker } from "../../../../src/cli/prove/judge/meter-checker.ts";
import type { LogLine } from "../../../../src/cli/prove/trial/processes.ts";
import type { SentRequest } from "../../../../src/cli/prove/trial/promises.ts";
import { METER } from "../../../../src/cli/prove/trial/workload.ts";

const ACCOUNT = "a_1";

/** By how much the history is off where the backend told 100 units and the history has `counted`. */
async function offBy(counted: number, ...lines: readonly Record<string, unknown>[]) {
  const checker = new MeterChecker();
  for (const line of lines) checker.onLogLine(line as LogLine);
  return offAfter(checker, counted);
}

async function offAfter(
  checker: MeterChecker,
  counted: number,
  { unsettled = 0, isOff = false } = {},
) {
  const admin = createServer(({ url }, response) => {
    if (url !== "/api/history?days=3&limit=10000") response.statusCode = 404;
    if (isOff) return void response.writeHead(409).end(JSON.stringify({ code: "conflict" }));
    // Two days, as a proof may run over midnight, and one on which nothing was metered.
    const units = [counted - 1, 1, undefined];
    const days = units.map((one) => ({ account: ACCOUNT, meters: { [METER.name]: one } }));
    response.end(JSON.stringify([...days, { account: ACCOUNT }]));
  });
  admin.listen(0, "127.0.0.1");
  await once(admin, "listening");
  try {
    const { port } = admin.address() as AddressInfo;
    return await checker.compare({
      adminUrl: `http://127.0.0.1:${port}`,
      accounts: [ACCOUNT],
      usedBy: () => 100,
      unsettledOf: (account) => (account === ACCOUNT ? unsettled : Number.NaN),
      waitMs: 0,
    });
  } finally {
    admin.close();
    admin.closeAllConnections();
  }
}

describe("the judge of the meter of a proof", () => {
  const lost = (units: number) => ({ msg: "settlement_lost", account: ACCOUNT, units });
  const uncertain = (accounts: string) => ({ msg: "charges_uncertain", accounts });

  it("finds a history that has more or less than the backend told", async () => {
    assert.deepEqual([await offBy(100), await offBy(93), await offBy(107)], [0, 7, 7]);
    assert.equal(await offAfter(new MeterChecker(), 100, { isOff: true }), 100);
  });

  it("excuses units of a lost settlement only on the side on which they are missing", async () => {
    for (const [counted, units, off] of [
      [80, 20, 0],
      [79, 20, 1],
      [120, -20, 0],
      [121, -20, 1],
      [120, 20, 20],
      [80, -20, 20],
    ] as const) {
      assert.equal(await offBy(counted, lost(units)), off, `${counted} with ${units} lost`);
    }
    assert.equal(await offBy(70, lost(20), lost(10), lost(-5)), 0);
    assert.equal(await offBy(80, { ...lost(20), account: "a_2" }), 20, "of another account");
  });

  it("excuses what a killed gateway had not settled, by the most of each request, and no unit more", async () => {
    const offKilled = (counted: number) => offAfter(new MeterChecker(), counted, { unsettled: 2 });
    assert.equal(await offKilled(100 - 2 * METER.max), 0);
    assert.equal(await offKilled(99 - 2 * METER.max), 1);
    assert.equal(await offKilled(101 + 2 * METER.max), 1);
  });

  it("excuses nothing for a request that was answered, or that has no meter", async () => {
    const checker = new MeterChecker();
    const shot = { account: ACCOUNT, endedMs: 1_000 };
    checker.take({ ...shot, operation: METER.operation, response: { status: 200 } } as SentRequest);
    checker.take({ ...shot, operation: "pets" } as SentRequest);
    assert.equal(await offAfter(checker, 93), 7);
  });

  it("judges each account by itself, and waits for settlements that are under way", async () => {
    const checker = new MeterChecker();
    const shot = { account: "open", operation: METER.operation, endedMs: 1_000 };
    checker.take(shot as SentRequest);
    let asked = 0;
    const admin = createServer((_, response) => {
      asked += 1;
      const day = (account: string, units: number) => ({ account, meters: { tokens: units } });
      response.end(JSON.stringify([day("open", 100), day("other", asked < 3 ? 90 : 93)]));
    });
    await once(admin.listen(0, "127.0.0.1"), "listening");
    try {
      const adminUrl = `http://127.0.0.1:${(admin.address() as AddressInfo).port}`;
      const accounts = ["open", "other"];
      const common = { adminUrl, accounts, unsettledOf: () => 0 };
      assert.equal(await checker.compare({ ...common, usedBy: () => 100, waitMs: 0 }), 10);
      const usedBy = (account: string) => (account === "open" ? 100 : 93);
      const startMs = performance.now();
      assert.equal(await checker.compare({ ...common, usedBy, waitMs: 60_000 }), 0);
      assert.equal(asked, 3);
      // A timer counts from the begin of its turn, so that a stall in it shortens the pause.
      assert.ok(performance.now() - startMs > 50, "it pauses between two questions");
    } finally {
      admin.close();
      admin.closeAllConnections();
    }
  });

  it("excuses units that may have been charged twice, of the meter alone, and none that are missing", async () => {
    const line = uncertain(`proof:${ACCOUNT} 40, proof:${ACCOUNT}#${METER.name} 30`);
    assert.deepEqual([await offBy(130, line), await offBy(131, line)], [0, 1]);
    assert.equal(await offBy(70, line), 30);
    assert.equal(await offBy(130, { ...line, msg: "charges_lost" }), 30, "lost is not twice");
  });
});
