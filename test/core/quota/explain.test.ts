import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { explainRefusal, type RefusalRecord } from "../../../src/core/quota/explain.ts";
import { REFUSALS } from "../../../src/core/refusal-table.ts";

/** 2026-03-17, a Tuesday, at 10:20:30.250. */
const NOW_MS = Date.UTC(2026, 2, 17, 10, 20, 30, 250);
const NOW_S = NOW_MS / 1_000;
const s = (...date: [number, number, number, number?, number?]) => Date.UTC(...date) / 1_000;
const NEXT_MINUTE = s(2026, 2, 17, 10, 21);
const NEXT_DAY = s(2026, 2, 18);
const NEXT_MONTH = s(2026, 3, 1);

const LINE: RefusalRecord = {
  id: "r1",
  env: "production",
  account: "acme",
  key: "k_1",
  plan: "free",
  method: "POST",
  path: "/v1/pets",
  status: 429,
  code: "rate_limited",
  decision: "refused",
  charged: 0,
  decidedAt: NOW_MS,
  cost: 2,
  strikes: 3,
  config: "01234567",
  windows: [
    ["minute", 59, 60, NEXT_MINUTE],
    ["day", 100, 1_000, NEXT_DAY],
  ],
  by: "redis",
};

const MINUTE = {
  window: "minute",
  used: 59,
  limit: 60,
  remaining: 1,
  from: s(2026, 2, 17, 10, 20),
  reset: NEXT_MINUTE,
  exhausted: true,
};
const DAY = {
  window: "day",
  used: 100,
  limit: 1_000,
  remaining: 900,
  from: s(2026, 2, 17),
  reset: NEXT_DAY,
  exhausted: false,
};

function explained(changes: Partial<RefusalRecord>) {
  return explainRefusal({ ...LINE, ...changes });
}

describe("The explanation of a refusal", () => {
  it("has all that the line says, each window with its bounds, and the limit that decided", () => {
    assert.deepEqual(explainRefusal(LINE), {
      id: "r1",
      environment: "production",
      account: "acme",
      key: "k_1",
      plan: "free",
      request: "POST /v1/pets",
      status: 429,
      code: "rate_limited",
      rule: "The minute limit is 60 units: 59 were used, and the request costs 2",
      cost: 2,
      charged: 0,
      window: MINUTE,
      windows: [MINUTE, DAY],
      strikes: 3,
      ban: null,
      decidedAt: NOW_S,
      decidedBy: "redis",
      config: "01234567",
      passesAt: NEXT_MINUTE,
    });
  });

  it("has null for all that a line does not say", () => {
    const bare = {
      id: "r2",
      method: "GET",
      path: "/",
      status: 401,
      decision: "refused",
      charged: 1,
    };
    assert.deepEqual(explainRefusal({ ...bare, code: "key_invalid" }), {
      id: "r2",
      environment: null,
      account: null,
      key: null,
      plan: null,
      request: "GET /",
      status: 401,
      code: "key_invalid",
      rule: REFUSALS.key_invalid.when,
      cost: null,
      charged: 1,
      window: null,
      windows: [],
      strikes: null,
      ban: null,
      decidedAt: null,
      decidedBy: null,
      config: null,
      passesAt: null,
    });
  });
});

describe("A window is explained as exhausted", () => {
  const isExhausted = (changes: Partial<RefusalRecord>) => explained(changes).windows[0]?.exhausted;
  const minute = (used: number, limit: number, name = "minute") => {
    return { windows: [[name, used, limit, NEXT_MINUTE] as const] };
  };

  it("from the first unit that the cost does not fit, and never for a cost of nothing", () => {
    assert.equal(isExhausted({ ...minute(58, 60), cost: 2 }), false);
    assert.equal(isExhausted({ ...minute(59, 60), cost: 2 }), true);
    assert.equal(isExhausted({ ...minute(60, 60), cost: 0 }), false);
    assert.equal(isExhausted({ ...minute(61, 60), cost: 0 }), false);
  });

  it("by a cost of 1 where the line has none", () => {
    assert.equal(isExhausted({ ...minute(59, 60), cost: undefined }), false);
    assert.equal(isExhausted({ ...minute(60, 60), cost: undefined }), true);
  });

  it("of a meter by what the request holds of it, and for a hold of nothing from the limit on", () => {
    const holding = (held: number, used: number) => {
      return isExhausted({
        ...minute(used, 60, "tokens.minute"),
        holds: { tokens: held },
        cost: 50,
      });
    };
    assert.equal(holding(10, 50), false);
    assert.equal(holding(10, 51), true);
    assert.equal(holding(0, 59), false);
    assert.equal(holding(0, 60), true);
    assert.equal(holding(0, 61), true);
  });

  it("by the cost where the hold is of another meter, or the window of no meter", () => {
    const holds = { minutes: 0, minute: 0 };
    assert.equal(isExhausted({ ...minute(60, 60, "tokens.minute"), holds, cost: 1 }), true);
    assert.equal(isExhausted({ ...minute(60, 60, "minute"), holds, cost: 0 }), false);
    assert.equal(isExhausted({ ...minute(58, 60, "toString.minute"), holds: {}, cost: 2 }), false);
  });

  it("with nothing remaining where more was used than the limit", () => {
    assert.equal(explained(minute(75, 60)).windows[0]?.remaining, 0);
  });
});

describe("The bounds of an explained window", () => {
  const fromOf = (name: string, changes: Partial<RefusalRecord> = {}) => {
    return explained({ windows: [[name, 1, 10, NEXT_MONTH]], ...changes }).windows[0]?.from;
  };

  it("begin with the window, also of one that belongs to an operation or a meter", () => {
    assert.equal(fromOf("day"), s(2026, 2, 17));
    assert.equal(fromOf("createPet.minute"), s(2026, 2, 17, 10, 20));
    assert.equal(fromOf("tokens.month"), s(2026, 2, 1));
    assert.equal(fromOf("unknown"), 0);
  });

  it("begin a month at the anchor of the account, and no other window", () => {
    const monthFrom = s(2026, 2, 9);
    assert.equal(fromOf("month", { monthFrom }), monthFrom);
    assert.equal(fromOf("tokens.month", { monthFrom }), monthFrom);
    assert.equal(fromOf("day", { monthFrom }), s(2026, 2, 17));
  });

  it("are of 1970 where the line has no instant", () => {
    assert.equal(fromOf("day", { decidedAt: undefined }), 0);
  });
});

describe("The instant at which a refused request would pass", () => {
  it("is when the last of the exhausted windows ends, whatever their order", () => {
    const minute = ["minute", 60, 60, NEXT_MINUTE] as const;
    const day = ["day", 1_000, 1_000, NEXT_DAY] as const;
    const month = ["month", 1, 10_000, NEXT_MONTH] as const;
    for (const windows of [
      [minute, day, month],
      [month, day, minute],
    ]) {
      const { passesAt, window } = explained({ windows });
      assert.deepEqual([passesAt, window?.window], [NEXT_DAY, "day"]);
    }
  });

  it("is the end of the ban where that is later, and of the window where that one is", () => {
    assert.equal(explained({ ban: NEXT_DAY }).passesAt, NEXT_DAY);
    assert.equal(explained({ ban: NEXT_MINUTE - 5 }).passesAt, NEXT_MINUTE);
    assert.equal(explained({ ban: NEXT_DAY, windows: [] }).passesAt, NEXT_DAY);
  });

  it("tells of two windows that end together the later one of the line", () => {
    const windows = [
      ["minute", 60, 60, NEXT_MINUTE],
      ["tokens.minute", 60, 60, NEXT_MINUTE],
    ] as const;
    assert.equal(explained({ windows }).window?.window, "tokens.minute");
  });

  it("is the end of the window for a share, which has no room before while the store is away", () => {
    const windows = [
      ["day", 0, 1_000, NEXT_DAY],
      ["minute", 30, 30, NEXT_MINUTE],
    ] as const;
    const share = { by: "share", windows, code: "store_unavailable" };
    assert.equal(explained({ ...share, cost: 1 }).passesAt, NEXT_MINUTE);
    assert.equal(explained({ ...share, cost: 31 }).passesAt, NEXT_MINUTE);
  });
});

describe("The rule that decided is told in words", () => {
  const ruleOf = (changes: Partial<RefusalRecord>) => explained(changes).rule;
  const TOKENS = [["tokens.day", 900, 1_000, NEXT_DAY]] as const;

  it("of a limit by what was used and what the request takes: its cost, or what it holds", () => {
    assert.equal(
      ruleOf({ windows: TOKENS, holds: { tokens: 101 } }),
      "The tokens.day limit is 1000 units: 900 were used, and the request holds 101",
    );
    assert.equal(
      ruleOf({ windows: [["minute", 60, 60, NEXT_MINUTE]], cost: undefined }),
      "The minute limit is 60 units: 60 were used, and the request costs 1",
    );
    assert.equal(
      ruleOf({ code: "meter_held", windows: TOKENS, holds: { tokens: 101 } }),
      "The tokens.day limit is 1000 units: 900 were used or held by requests under way, and the request holds 101. " +
        "There may be room as soon as one of them is settled",
    );
  });

  it("of a share as no rate limit", () => {
    assert.equal(
      ruleOf({ code: "store_unavailable", by: "share" }),
      "This gateway's share of the minute limit is 60 units: 59 were used, and the request costs 2. " +
        "The limit itself has room, which is kept for what other gateways may owe: this is no rate limit, and no strike. " +
        "There may be room as soon as the store is back and they owe nothing",
    );
  });

  it("of a ban by how it came about, or by the command that knows", () => {
    const banned = { ...LINE, code: "key_banned", ban: NEXT_DAY };
    const ruleBy = (...known: [Parameters<typeof explainRefusal>[1]?]) => {
      const { rule, ban } = explainRefusal(banned, ...known);
      return { rule, ban };
    };
    assert.deepEqual(ruleBy(), {
      rule: "A ban of the account ran: tollgate bans why acme says how it came about",
      ban: { until: NEXT_DAY, imposed: null, reason: null },
    });
    assert.equal(
      ruleOf({ code: "key_banned", account: undefined }),
      "A ban of the account ran: tollgate bans why ACCOUNT says how it came about",
    );
    assert.deepEqual(ruleBy({ imposed: false }), {
      rule: "A ban ran: the account had earned it by going on after a limit was used up",
      ban: { until: NEXT_DAY, imposed: false, reason: null },
    });
    assert.deepEqual(ruleBy({ imposed: true, reason: "abuse" }), {
      rule: "A ban ran that was imposed by hand: abuse",
      ban: { until: NEXT_DAY, imposed: true, reason: "abuse" },
    });
    assert.deepEqual(ruleBy({ imposed: true, reason: "" }), {
      rule: "A ban ran that was imposed by hand, without a reason",
      ban: { until: NEXT_DAY, imposed: true, reason: null },
    });
  });

  it("of the table for a code without a window, with the reason of the line", () => {
    for (const code of ["rate_limited", "meter_held", "key_invalid"] as const) {
      assert.equal(ruleOf({ code, windows: [] }), REFUSALS[code].when);
      assert.equal(ruleOf({ code, windows: [], why: "so" }), `${REFUSALS[code].when}: so`);
    }
    const by = { by: "share", windows: [], code: "store_unavailable" };
    assert.equal(ruleOf(by), REFUSALS.store_unavailable.when);
  });

  it("is the cause alone: no code has a word on fields or messages of other answers in it", () => {
    const rule = ruleOf({ code: "bad_request", windows: [], why: "ambiguous path" });
    assert.equal(
      rule,
      "The head, the target or the body is malformed or ambiguous: ambiguous path",
    );
    for (const code of Object.keys(REFUSALS)) {
      assert.doesNotMatch(ruleOf({ code, windows: [] }), /Retry-After|the (field|message) /, code);
    }
  });

  it("is text for a terminal and the page: no code has a link of the documentation in it", () => {
    for (const code of Object.keys(REFUSALS)) {
      assert.doesNotMatch(ruleOf({ code, windows: [] }), /\]\(/, code);
    }
  });

  it("of a code that this version does not know by its name", () => {
    assert.equal(ruleOf({ code: "of_tomorrow" }), "of_tomorrow");
    assert.equal(ruleOf({ code: "toString", why: "so" }), "toString: so");
  });

  it("of a line that was admitted as no refusal", () => {
    const admitted = { code: undefined, decision: "admitted", windows: [] };
    assert.equal(ruleOf(admitted), "It was not refused: admitted");
  });
});
