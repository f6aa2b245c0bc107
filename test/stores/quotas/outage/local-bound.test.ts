import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { type Holds, meterChanges, meterPart } from "../../../../src/core/quota/meters.ts";
import { LocalQuotas } from "../../../../src/stores/quotas/outage/local-quotas.ts";
import { settlementDebt } from "../../../../src/stores/quotas/outage/settlement-queues.ts";
import { accountRef, asking, NOON, terms, toldBy } from "./local-kit.ts";

describe("the bound while the store is away", () => {
  const absence = fc.record({
    limit: fc.integer({ min: 1, max: 60 }),
    known: fc.integer({ min: 0, max: 60 }),
    gateways: fc.integer({ min: 1, max: 9 }),
    turns: fc.array(fc.nat({ max: 8 }), { maxLength: 200 }),
  });

  /** Units counted in a window: those of the store, and of gateways that ask in any order. */
  function counted(
    {
      limit,
      known,
      gateways,
      turns,
    }: { limit: number; known: number; gateways: number; turns: number[] },
    knows: (gateway: number) => boolean,
  ) {
    const used = Math.min(known, limit);
    const quotaRequest = asking({ window: "minute", limit });
    const all = Array.from({ length: gateways }, () => new LocalQuotas(100));
    const last = toldBy(quotaRequest, used, NOON);
    const one = (gateway: number) => {
      const given = terms({ gateways, last: knows(gateway) ? last : undefined });
      return (all[gateway] as LocalQuotas).decide(accountRef, quotaRequest, given).decision.granted;
    };
    let sum = used;
    for (const turn of turns) sum += one(turn % gateways);
    const some = sum;
    for (let g = 0; g < gateways; g++) for (let i = 0; i <= limit; i++) sum += one(g);
    return { some, most: sum };
  }

  it("is limit + G - 1 where every gateway knew the count, in any order of requests", () => {
    fc.assert(
      fc.property(absence, (run) => {
        const { some, most } = counted(run, () => true);
        const bound = run.limit + run.gateways - 1;
        assert.ok(some <= most && most <= bound, `${most} of ${bound}`);
        assert.ok(most >= run.limit, `${most}: what was left is not given away`);
      }),
      { numRuns: 500 },
    );
  });

  it("is limit + (limit + G - 1) where none did, and never more where only some did", () => {
    fc.assert(
      fc.property(absence, fc.nat(), (run, knowing) => {
        const bound = run.limit + run.limit + run.gateways - 1;
        for (const knows of [() => false, (gateway: number) => (knowing >> gateway) % 2 === 1]) {
          assert.ok(counted(run, knows).most <= bound);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("is the same in units, whatever requests cost, and a cost above a whole share is never admitted", () => {
    const costs = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(absence, costs, ({ limit, known, gateways }, cost) => {
        const used = Math.min(known, limit);
        const quotaRequest = asking({ window: "minute", limit });
        const given = terms({ gateways, last: toldBy(quotaRequest, used, NOON) });
        const share = Math.ceil((limit - used) / gateways);
        let sum = used;
        for (let gateway = 0; gateway < gateways; gateway++) {
          const accounts = new LocalQuotas(100);
          let own = 0;
          // Dear ones first come, cheap ones after them: what is left is used up.
          for (const each of [...cost, ...Array<number>(limit).fill(1)]) {
            const { decision, outcome } = accounts.decide(
              accountRef,
              { ...quotaRequest, cost: each },
              given,
            );
            const fits = each === 0 || own + each <= share;
            assert.equal(decision.granted, fits ? 1 : 0);
            const isExhausted = used + own + each > limit;
            assert.equal(outcome, fits ? "admitted" : isExhausted ? "exhausted" : "share");
            if (fits) own += each;
          }
          const owed = accounts.debts.take().flatMap(({ windows: units }) => units);
          assert.equal(
            owed.reduce((all, { units }) => all + units, 0),
            own,
            "what is charged later is what was admitted",
          );
          sum += own;
        }
        assert.ok(sum >= limit && sum <= limit + gateways - 1, `${sum}`);
      }),
      { numRuns: 300 },
    );
  });

  it("is more by what was charged since the oldest answer where they differ: 131 of 100 are reached", () => {
    const quotaRequest = asking({ window: "minute", limit: 100 });
    const admittedBy = (known: number) => {
      const given = terms({ gateways: 2, last: toldBy(quotaRequest, known, NOON) });
      const accounts = new LocalQuotas(100);
      let sum = 0;
      for (let i = 0; i < 200; i++)
        sum += accounts.decide(accountRef, quotaRequest, given).decision.granted;
      return sum;
    };
    const [oldest, count] = [0, 62];
    const all = count + admittedBy(oldest) + admittedBy(count);
    assert.equal(all, 131);
    assert.ok(all <= 100 + 2 - 1 + (count - oldest));
    assert.ok(all <= 100 + (100 + 2 - 1));
  });

  it("holds for any counts that gateways know last: limit + G - 1, and what was charged since the oldest", () => {
    const known = fc.array(fc.nat(60), { minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), known, (limit, all) => {
        const quotaRequest = asking({ window: "minute", limit });
        const counts = all.map((each) => Math.min(each, limit));
        const [count, oldest, gateways] = [Math.max(...counts), Math.min(...counts), all.length];
        let sum = count;
        for (const each of counts) {
          const given = terms({ gateways, last: toldBy(quotaRequest, each, NOON) });
          const accounts = new LocalQuotas(100);
          for (let i = 0; i <= limit; i++)
            sum += accounts.decide(accountRef, quotaRequest, given).decision.granted;
        }
        assert.ok(sum <= limit + gateways - 1 + (count - oldest), `${sum} of ${limit}`);
        assert.ok(sum <= limit + (limit + gateways - 1));
      }),
      { numRuns: 300 },
    );
  });

  it("is reached: no smaller one would be true", () => {
    const run = { limit: 10, known: 1, gateways: 8, turns: [] };
    assert.equal(counted(run, () => true).most, 1 + 8 * 2);
    assert.equal(10 + 8 - 1, 17);
    const full = { limit: 9, known: 9, gateways: 8, turns: [] };
    assert.equal(counted(full, () => false).most, 9 + 9 + 8 - 1);
  });
});

describe("what answers use of a share", () => {
  const HOLD = 4;
  const METERED = asking({ window: "day", limit: 100, part: meterPart("tokens"), hold: HOLD });

  /** One gateway whose answers use up to `max` of the meter. */
  class Metered {
    readonly quotas = new LocalQuotas(100);
    readonly #max: number;
    readonly #open: Holds[] = [];
    used = 0;

    constructor(max: number) {
      this.#max = max;
    }

    get open(): number {
      return this.#open.length;
    }

    ask(given = terms({ gateways: 2 })) {
      const { decision, outcome } = this.quotas.decide(accountRef, METERED, given);
      const { windows, nowMs: decidedMs } = decision;
      const meter = { name: "tokens", hold: HOLD, max: this.#max, untold: HOLD, used: [] };
      const holds = { id: "", plan: "", meters: [meter], windows, decidedMs };
      if (outcome === "admitted") this.#open.push(holds);
      return outcome;
    }

    settle(units: number): void {
      const holds = this.#open.shift();
      if (holds === undefined) return;
      this.used += units;
      const debt = settlementDebt(
        accountRef,
        holds,
        meterChanges(holds, [{ name: "tokens", units }]),
      );
      this.quotas.debts.restore([debt]);
      this.quotas.settleShares([debt]);
    }

    /** How many requests are admitted before the share is used up. */
    untilRefused(given = terms({ gateways: 2 })): number {
      let admitted = 0;
      while (admitted < 1_000 && this.ask(given) === "admitted") admitted += 1;
      return admitted;
    }
  }

  it("is at most all shares, and r times as much where answers use more than their holds", () => {
    const step = fc.record({ gateway: fc.nat(1), used: fc.option(fc.nat(12), { nil: undefined }) });
    const trial = fc.record({
      known: fc.nat(100),
      max: fc.integer({ min: HOLD, max: 12 }),
      steps: fc.array(step, { minLength: 20, maxLength: 200, size: "max" }),
    });
    let beyond = 0;
    fc.assert(
      fc.property(trial, ({ known, max, steps }) => {
        const knowing = { ...terms({ gateways: 2 }), knownCount: () => known };
        const gateways = [new Metered(max), new Metered(max)];
        let admitted = 0;
        for (const { gateway, used } of steps) {
          const one = gateways[gateway] as Metered;
          if (used !== undefined) one.settle(Math.min(used, max));
          else if (one.ask(knowing) === "admitted") admitted += 1;
        }
        const share = Math.ceil((100 - known) / 2);
        if (admitted * HOLD > 2 * share) beyond += 1;
        for (const one of gateways) {
          one.untilRefused(knowing);
          while (one.open > 0) one.settle(max);
          assert.ok(one.used <= (share * max) / HOLD, `${one.used} of ${share}`);
          const owed = one.quotas.debts.take().flatMap(({ windows }) => windows);
          assert.equal(
            owed.reduce((sum, { units }) => sum + units, 0),
            one.used,
          );
        }
      }),
      { numRuns: 600 },
    );
    assert.ok(beyond > 20, `${beyond}: what was given back was admitted again`);
  });

  it("is counted in it: less than a hold frees the rest, more makes it fuller", () => {
    const used = (units: number | undefined) => {
      const gateway = new Metered(20);
      assert.equal(gateway.ask(), "admitted");
      if (units !== undefined) gateway.settle(units);
      return gateway.untilRefused();
    };
    // Shares of 50, of which one hold of 4 leaves room for 11.
    assert.deepEqual([undefined, HOLD, 0, 2, 20].map(used), [11, 11, 12, 12, 7]);
  });

  it("frees nothing in the share of another outage or of a later day", () => {
    const gateway = new Metered(20);
    gateway.ask();
    gateway.ask();
    gateway.quotas.beginOutage();
    gateway.ask();
    gateway.settle(0);
    // The share is 46 of the 92 units that two holds leave, and 4 of it are held.
    assert.equal(gateway.untilRefused(), 10);
    const ended = new Metered(20);
    ended.ask();
    ended.quotas.endOutage();
    ended.ask();
    ended.settle(0);
    assert.equal(ended.untilRefused(), 11);
    const tomorrow = terms({ gateways: 2, nowMs: NOON + 24 * 3_600_000 });
    const later = new Metered(20);
    later.ask();
    later.ask(tomorrow);
    later.settle(0);
    assert.equal(later.untilRefused(tomorrow), 11);
  });
});
