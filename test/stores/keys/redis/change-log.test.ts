import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  appendChange,
  changedSince,
  isOlder,
  lastVersion,
} from "../../../../src/stores/keys/redis/change-log.ts";

describe("The log of changes of the records in Redis", () => {
  const one = appendChange("", { from: "", to: "1.a", names: ["k_1", "@a"] });
  const two = appendChange(one, { from: "1.a", to: "2.b", names: ["k_2", "@a"] });

  it("tells the fields that changed since a version, each once", () => {
    assert.deepEqual(changedSince("1.a", two), ["k_2", "@a"]);
    assert.deepEqual(changedSince("", two), ["k_1", "@a", "k_2"]);
    assert.equal(lastVersion(two), "2.b");
  });

  it("tells nothing of a version that it does not have, and none to whoever has the last", () => {
    assert.equal(changedSince("1.other", two), undefined);
    assert.equal(changedSince("2.b", two), undefined);
  });

  it("tells nothing across a gap, where a writer kept no log", () => {
    const gap = appendChange(two, { from: "3.c", to: "4.d", names: ["k_4"] });
    assert.equal(changedSince("1.a", gap), undefined);
    assert.deepEqual(changedSince("3.c", gap), ["k_4"]);
  });

  it("begins anew where everything changed", () => {
    const anew = appendChange(two, { from: "2.b", to: "3.c", names: undefined });
    assert.equal(changedSince("1.a", anew), undefined);
    assert.equal(lastVersion(anew), "");
  });

  it("lets its oldest changes go, and stays short", () => {
    let log = "";
    for (let i = 0; i < 2_000; i++) {
      log = appendChange(log, { from: `${i}.x`, to: `${i + 1}.x`, names: [`k_${i}`] });
    }
    assert.ok(log.length <= 40_960);
    assert.equal(changedSince("0.x", log), undefined);
    assert.deepEqual(changedSince("1998.x", log), ["k_1998", "k_1999"]);
    const huge = Array.from({ length: 5_000 }, (_, i) => `k_${i}`);
    const none = appendChange(log, { from: "2000.x", to: "2001.x", names: huge });
    assert.equal(changedSince("2000.x", none), undefined);
  });

  it("is none where it cannot be read, whatever stands there", () => {
    for (const broken of ["{", "7", "[7]", '[["a"]]', '[["a","b",[7]]]', "null"]) {
      assert.equal(changedSince("a", broken), undefined, broken);
      assert.equal(lastVersion(broken), "");
    }
  });

  it("tells records that lack a version from its successors", () => {
    const log = appendChange(two, { from: "2.b", to: "3.c", names: [] });
    const isOlderThan = (known: string) => isOlder({ version: "3.c", changes: log }, known);
    assert.deepEqual(["", "1.a", "2.b", "3.c"].map(isOlderThan), [false, false, false, false]);
    assert.deepEqual(["1.x", "2.x", "3.x", "4.x"].map(isOlderThan), [true, true, true, true]);
  });

  it("tells none as older where it does not go back to that version, or has another end", () => {
    const late = appendChange("[]", { from: "8.h", to: "9.i", names: [] });
    assert.equal(isOlder({ version: "9.i", changes: late }, "7.x"), false);
    assert.equal(isOlder({ version: "9.i", changes: late }, "8.x"), true);
    assert.equal(isOlder({ version: "10.j", changes: late }, "8.x"), false);
  });
});
