import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  accountEvent,
  capsEvent,
  ImportEvents,
  keyEvent,
} from "../../../src/core/keys/record-events.ts";
import type { AccountRecord, KeyRecord } from "../../../src/core/keys/records.ts";

const KEY: KeyRecord = {
  ...{ id: "k1", digest: "d1", name: "", environment: "production", account: "a1" },
  ...{ scopes: [], from: [], createdMs: 1 },
};
const ACCOUNT: AccountRecord = {
  ...{ id: "a1", environment: "production", plan: "free", limits: [], meta: {}, createdMs: 1 },
};
const ABOUT = { plan: "free", isSuccessor: false };

describe("Of a key", () => {
  const kindOf = (was: KeyRecord | undefined, is: KeyRecord, about = ABOUT) =>
    keyEvent([was, is], about)?.kind;

  it("a new one is news, unless it is a successor or does not work any more", () => {
    assert.equal(kindOf(undefined, KEY), "key_issued");
    assert.equal(kindOf(undefined, KEY, { ...ABOUT, isSuccessor: true }), undefined);
    assert.equal(kindOf(undefined, { ...KEY, revokedMs: 5 }), undefined);
  });

  it("a revocation is told once, and goes before a rotation", () => {
    const revoked = { ...KEY, revokedMs: 5 };
    assert.equal(kindOf(KEY, revoked), "key_revoked");
    assert.equal(kindOf(KEY, { ...revoked, replacedBy: "k2" }), "key_revoked");
    assert.equal(kindOf(revoked, { ...revoked, name: "late" }), undefined);
  });

  it("each rotation is told with its successor, and nothing else of it", () => {
    const rotated = { ...KEY, replacedBy: "k2", expiresMs: 9 };
    assert.equal(kindOf(KEY, rotated), "key_rotated");
    assert.equal(kindOf(rotated, { ...rotated, expiresMs: 7 }), undefined);
    const again = { ...rotated, replacedBy: "k3" };
    const markers = [keyEvent([KEY, rotated], ABOUT), keyEvent([rotated, again], ABOUT)];
    assert.equal(new Set(markers.map((event) => event?.marker)).size, 2);
  });
});

describe("Of the caps of a key", () => {
  const [hour, day] = (["hour", "day"] as const).map((window) => ({ window, limit: 5 }));
  const capped = (...limits: (typeof hour)[]) => {
    return { ...KEY, caps: { number: 0, limits } } as KeyRecord;
  };

  it("those are told that the key did not have before, and none of a new key", () => {
    const told = (was: KeyRecord | undefined, is: KeyRecord) => capsEvent([was, is])?.details;
    const about = { key: "k1", account: "a1", env: "production" };
    assert.deepEqual(told(KEY, capped(hour, day)), {
      ...about,
      newWindows: ["key.hour", "key.day"],
    });
    assert.deepEqual(told(capped(hour), capped(hour, day)), { ...about, newWindows: ["key.day"] });
    const again = { ...about, newWindows: ["key.hour"] };
    assert.deepEqual(told(capped(), capped(hour)), again, "dropped in between");
    const raised = capped({ window: "hour", limit: 6 });
    for (const was of [undefined, raised, capped(hour, day)]) {
      assert.equal(told(was, capped(hour)), undefined);
    }
  });

  it("gateways that saw other caps before give the same caps the same marker", () => {
    const [one, other] = [
      capsEvent([KEY, capped(hour, day)]),
      capsEvent([capped(day), capped(hour, day)]),
    ];
    assert.equal(one?.marker, other?.marker);
    assert.notEqual(one?.marker, capsEvent([KEY, capped(day)])?.marker);
  });
});

describe("Of an account", () => {
  it("a change is news, and a new object with the same content or a new account is not", () => {
    assert.equal(accountEvent([undefined, ACCOUNT]), undefined);
    assert.equal(accountEvent([ACCOUNT, { ...ACCOUNT }]), undefined);
    assert.deepEqual(accountEvent([ACCOUNT, { ...ACCOUNT, plan: "pro" }])?.details, {
      ...{ account: "a1", env: "production", plan: "pro", newWindows: [] },
    });
  });

  it("a change names the windows that it had no limits of its own for before", () => {
    const [hour, day] = (["hour", "day"] as const).map((window) => ({ window, limit: 5 }));
    const named = (was: readonly (typeof hour)[], is: readonly (typeof hour)[]) => {
      const limits = (of: typeof was) => of.filter((one) => one !== undefined);
      const [before, after] = [was, is].map((of) => ({ ...ACCOUNT, limits: limits(of) }));
      return accountEvent([before, after as typeof ACCOUNT])?.details;
    };
    const about = { account: "a1", env: "production", plan: ACCOUNT.plan };
    assert.deepEqual(named([], [hour, day]), { ...about, newWindows: ["hour", "day"] });
    assert.deepEqual(named([hour], [{ window: "hour", limit: 6 }, day]), {
      ...about,
      newWindows: ["day"],
    });
    assert.deepEqual(named([hour, day], [day]), { ...about, newWindows: [] });
  });

  it("the order of members is no change, and the same marker is given for each order", () => {
    const suspended = { sinceMs: 5, reason: "unpaid" };
    const edited = { ...ACCOUNT, importId: "i_1", suspended };
    const { importId, ...others } = { ...edited, suspended: { reason: "unpaid", sinceMs: 5 } };
    const read = { ...others, importId };
    assert.equal(accountEvent([edited, read]), undefined);
    const [one, other] = [accountEvent([ACCOUNT, edited]), accountEvent([ACCOUNT, read])];
    assert.equal(one?.marker, other?.marker);
    const later = accountEvent([ACCOUNT, { ...edited, suspended: { ...suspended, sinceMs: 6 } }]);
    assert.notEqual(later?.marker, one?.marker);
  });

  it("gateways that saw other states before give the same change the same marker", () => {
    const pro = { ...ACCOUNT, plan: "pro" };
    const business = { ...ACCOUNT, plan: "business" };
    const [one, other] = [accountEvent([ACCOUNT, business]), accountEvent([pro, business])];
    assert.equal(one?.marker, other?.marker);
    assert.notEqual(one?.marker, accountEvent([ACCOUNT, pro])?.marker);
  });
});

describe("Of imports", () => {
  it("each is one event with its numbers, and what has the same import as before is none of it", () => {
    const imports = new ImportEvents();
    const one = { importId: "i_1" };
    assert.equal(imports.take([undefined, { ...ACCOUNT, ...one }]), true);
    assert.equal(imports.take([undefined, { ...KEY, ...one }]), true);
    assert.equal(imports.take([undefined, { ...KEY, id: "k2", ...one }]), true);
    assert.equal(imports.take([KEY, { ...KEY, revokedMs: 5, importId: "i_2" }]), true);
    const known = { ...KEY, ...one };
    assert.equal(imports.take([known, { ...known, revokedMs: 5 }]), false);
    assert.equal(imports.take([undefined, KEY]), false);
    assert.deepEqual(
      imports.events().map(({ kind, details }) => [kind, details]),
      [
        ["keys_imported", { import: "i_1", keys: 2, accounts: 1, ended: 0 }],
        ["keys_imported", { import: "i_2", keys: 0, accounts: 0, ended: 1 }],
      ],
    );
  });
});
