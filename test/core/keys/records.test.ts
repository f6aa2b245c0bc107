import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  checkKeyRecord,
  earliestEnd,
  effectiveLimits,
  ID_PATTERN,
  isId,
  isSuspended,
  isWorking,
  type KeyRecord,
} from "../../../src/core/keys/records.ts";

const NOON = Date.UTC(2026, 6, 15, 12);

const why = (judged: ReturnType<typeof checkKeyRecord>) =>
  judged.ok ? "ok" : `${judged.refusal.code}: ${judged.refusal.why}`;

describe("A record", () => {
  const record: KeyRecord = {
    id: "k_1",
    digest: "d".repeat(64),
    name: "",
    environment: "production",
    account: "k_1",
    scopes: [],
    from: [],
    createdMs: 0,
  };
  const cases: readonly (readonly [string, KeyRecord | undefined, string])[] = [
    ["that is good is accepted", record, "ok"],
    ["that is not there is refused", undefined, "key_invalid: unknown key"],
    [
      "of another environment is refused",
      { ...record, environment: "staging" },
      "key_invalid: another environment",
    ],
    ["that was revoked is refused", { ...record, revokedMs: NOON - 1 }, "key_invalid: revoked key"],
    [
      "revoked by a clock that is ahead is refused",
      { ...record, revokedMs: NOON + 5_000 },
      "key_invalid: revoked key",
    ],
    ["works a millisecond before it expires", { ...record, expiresMs: NOON + 1 }, "ok"],
    [
      "is refused at the instant it expires",
      { ...record, expiresMs: NOON },
      "key_invalid: expired key",
    ],
  ];
  for (const [name, given, expected] of cases) {
    it(name, () => assert.equal(why(checkKeyRecord(given, "production", NOON)), expected));
  }

  it("has an id of 1 to 64 plain characters", () => {
    for (const id of ["a", "A.b_c-9", "x".repeat(64)]) assert.match(id, ID_PATTERN);
    for (const id of ["", "x".repeat(65), "a b", "a/b", "a:b", "é", "a\n"]) {
      assert.doesNotMatch(id, ID_PATTERN);
    }
  });
});

describe("The limits of an account", () => {
  const plan = [
    { window: "minute", limit: 60 },
    { window: "day", limit: 1_000 },
  ] as const;

  it("are the plan's, its own in place of them, in the order of the windows", () => {
    assert.deepEqual(effectiveLimits(plan, []), plan);
    assert.deepEqual(effectiveLimits(plan, [{ window: "day", limit: 5 }]), [
      { window: "minute", limit: 60 },
      { window: "day", limit: 5 },
    ]);
    assert.deepEqual(
      effectiveLimits(plan, [
        { window: "month", limit: 7 },
        { window: "second", limit: 1 },
      ]),
      [
        { window: "second", limit: 1 },
        { window: "minute", limit: 60 },
        { window: "day", limit: 1_000 },
        { window: "month", limit: 7 },
      ],
    );
  });

  it("are its own alone on a custom plan", () => {
    assert.deepEqual(effectiveLimits("custom", [{ window: "hour", limit: 3 }]), [
      { window: "hour", limit: 3 },
    ]);
    assert.deepEqual(effectiveLimits("custom", []), []);
  });
});

describe("Whether a key works", () => {
  const cases: readonly (readonly [string, Partial<KeyRecord>, boolean])[] = [
    ["without an end", {}, true],
    ["before its expiry", { expiresMs: NOON + 1 }, true],
    ["at its expiry", { expiresMs: NOON }, false],
    ["revoked by a clock that is ahead", { revokedMs: NOON + 3_600_000 }, false],
  ];
  for (const [name, more, expected] of cases) {
    it(`${expected ? "does" : "does not"} ${name}`, () => {
      assert.equal(isWorking(more as KeyRecord, NOON), expected);
    });
  }
});

describe("Two records of one key", () => {
  const key = (more: Partial<KeyRecord>) => more as KeyRecord;

  it("end when the first of them says", () => {
    assert.equal(earliestEnd(key({}), key({ revokedMs: 5 })).revokedMs, 5);
    assert.equal(earliestEnd(key({ revokedMs: 4 }), key({ revokedMs: 5 })).revokedMs, 4);
    assert.equal(earliestEnd(key({ revokedMs: 6 }), key({ revokedMs: 5 })).revokedMs, 5);
    assert.equal(earliestEnd(key({ expiresMs: 9 }), key({ expiresMs: 8 })).expiresMs, 8);
    assert.equal(earliestEnd(key({}), key({ expiresMs: 8 })).expiresMs, 8);
  });

  it("name the successor that only one of them knows, also where both end at once", () => {
    const rotated = key({ expiresMs: 8, replacedBy: "k_2" });
    assert.deepEqual(earliestEnd(key({}), rotated), rotated);
    assert.deepEqual(earliestEnd(key({ expiresMs: 8 }), rotated), rotated);
    assert.equal(earliestEnd(key({ replacedBy: "k_3" }), rotated).replacedBy, "k_3");
  });

  it("are the very record where the other takes nothing away", () => {
    const own = key({ revokedMs: 4, expiresMs: 8 });
    assert.equal(earliestEnd(own, key({ revokedMs: 5 })), own);
    assert.equal(earliestEnd(own, key({ expiresMs: 8 })), own);
  });
});

describe("A suspended account", () => {
  const account = (untilMs?: number) => {
    const until = untilMs === undefined ? {} : { untilMs };
    const suspended = { sinceMs: 0, reason: "", ...until };
    const rest = { environment: "production", plan: "free", limits: [], meta: {}, createdMs: 0 };
    return { id: "a", ...rest, suspended };
  };

  it("is so until the instant that was named, or for ever", () => {
    assert.equal(isSuspended(account(), 1e15), true);
    assert.equal(isSuspended(account(NOON), NOON - 1), true);
    assert.equal(isSuspended(account(NOON), NOON), false);
  });
});

describe("An id that is given", () => {
  it("is plain, and no folder", () => {
    for (const id of ["a", "...", ".a", "a..b", "x".repeat(64)]) assert.equal(isId(id), true, id);
    for (const id of [".", "..", "", "a/b", "x".repeat(65)]) assert.equal(isId(id), false, id);
  });
});
