import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  childTraceFields,
  parseTraceContext,
  readTraceContext,
} from "../../../src/core/http/trace-context.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const GOOD = `00-${TRACE}-${PARENT}-01`;

const go = (parents: readonly string[], states: readonly string[] = []) => {
  return parseTraceContext({ parents, states });
};

describe("A valid traceparent goes on unchanged", () => {
  const PASSED: Readonly<Record<string, string>> = {
    sampled: GOOD,
    "not sampled": `00-${TRACE}-${PARENT}-00`,
    "random (level 2)": `00-${TRACE}-${PARENT}-02`,
    "with flags that nobody knows": `00-${TRACE}-${PARENT}-fc`,
    "of a later version": `01-${TRACE}-${PARENT}-01`,
    "of a later version with more behind it": `cc-${TRACE}-${PARENT}-01-what-comes`,
    "of a later version with an end of nothing": `fe-${TRACE}-${PARENT}-01-`,
    "with a trace id with a single digit": `00-${"1".padStart(32, "0")}-${PARENT}-01`,
    "with a parent id with a single digit": `00-${TRACE}-${"1".padStart(16, "0")}-01`,
  };
  for (const [name, received] of Object.entries(PASSED)) {
    it(name, () => {
      const [, traceId] = received.split("-");
      const { parentId: _, flags: __, ...fields } = go([received]) ?? {};
      assert.deepEqual(fields, { traceId, traceparent: received, tracestate: undefined });
    });
  }
});

describe("Nothing goes on, and none is begun, where the traceparent is", () => {
  const NEW: Readonly<Record<string, readonly string[]>> = {
    none: [],
    "an empty one": [""],
    "upper case in the trace id": [GOOD.toUpperCase()],
    "upper case in the parent id": [`00-${TRACE}-${PARENT.toUpperCase()}-01`],
    "upper case in the flags": [`00-${TRACE}-${PARENT}-0A`],
    "version ff": [`ff-${TRACE}-${PARENT}-01`],
    "a trace id of zeros": [`00-${"0".repeat(32)}-${PARENT}-01`],
    "a parent id of zeros": [`00-${TRACE}-${"0".repeat(16)}-01`],
    "version 00 with more behind it": [`${GOOD}-what`],
    "version 00 with an end of nothing": [`${GOOD}-`],
    "a later version with more and no dash": [`01-${TRACE}-${PARENT}-01what`],
    "a digit too many": [`00-${TRACE}1-${PARENT}-01`],
    "a digit too few": [`00-${TRACE.slice(1)}-${PARENT}-01`],
    "a parent id too short": [`00-${TRACE}-${PARENT.slice(1)}-01`],
    "one flag": [`00-${TRACE}-${PARENT}-1`],
    "a version of one digit": [`0-${TRACE}-${PARENT}-01`],
    "another letter": [`00-${TRACE.replace("a", "g")}-${PARENT}-01`],
    "other separators": [GOOD.replaceAll("-", "_")],
    "a line end behind it": [`${GOOD}\n`],
    "two, though the same": [GOOD, GOOD],
    "two in one field": [`${GOOD},${GOOD}`],
  };
  for (const [name, received] of Object.entries(NEW)) {
    it(name, () => {
      assert.equal(go(received, ["a=b"]), undefined);
    });
  }

  it("anything, but for one valid field", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string(), { maxLength: 2 }),
        fc.array(fc.string()),
        (parents, states) => {
          assert.equal(go(parents, states), undefined);
        },
      ),
    );
  });
});

describe("A tracestate goes on with its trace:", () => {
  const state = (...states: string[]) => go([GOOD], states)?.tracestate;
  const many = (count: number, length = 5) =>
    Array.from({ length: count }, (_, i) => `k${i}=`.padEnd(length, "v"));

  it("as it came, several fields as one list, in order", () => {
    assert.equal(state("a=1,b=2"), "a=1,b=2");
    assert.equal(state("a=1", "b=2", "c=3"), "a=1,b=2,c=3");
    assert.equal(state("rojo=00f067aa0ba902b7,1t@sys=x y"), "rojo=00f067aa0ba902b7,1t@sys=x y");
  });

  it("with its blanks and its empty members, but not where it has no member", () => {
    assert.equal(state(" a=1 ,\t, b=2,,"), " a=1 ,\t, b=2,,");
    assert.equal(state("", " ", ","), undefined);
    assert.equal(state(), undefined);
  });

  it("with a member twice, which is no reason to lose the list", () => {
    assert.equal(state("a=1,a=2"), "a=1,a=2");
  });

  it("not at all where a member is malformed", () => {
    const bad = [
      "a",
      "a=",
      "=1",
      "A=1",
      "a =1",
      "a=1=2",
      "a=\x7f",
      "a=\xe9",
      "é=1",
      "-a=1",
      `${"a".repeat(257)}=1`,
    ];
    for (const member of bad) assert.equal(state(`ok=1,${member}`), undefined, member);
    assert.equal(state(`a=${"v".repeat(257)}`), undefined);
    assert.equal(state(`a=${"v".repeat(256)}`), `a=${"v".repeat(256)}`);
    assert.equal(state(`${"a".repeat(256)}=1`), `${"a".repeat(256)}=1`);
  });

  it("not at all with more than 32 members", () => {
    assert.equal(state(many(32).join())?.split(",").length, 32);
    assert.equal(state(many(33).join()), undefined);
  });
});

describe("A trace that is continued", () => {
  const span = { traceId: TRACE, spanId: "00f067aa0ba902b7", sampled: true };
  const received = (...fields: readonly string[]) => readTraceContext(fields);

  it("is found by its fields, however they are written, and only where there is one of them", () => {
    const found = received(
      "Host",
      "a",
      "TraceParent",
      GOOD,
      "TRACESTATE",
      "a=1",
      "tracestate",
      "b=2",
    );
    assert.deepEqual([found?.traceId, found?.parentId, found?.flags], [TRACE, PARENT, 1]);
    assert.equal(found?.tracestate, "a=1,b=2");
    assert.equal(received("traceparent", GOOD, "Traceparent", GOOD), undefined);
    assert.equal(received("tracestate", "a=1", "x-raceparent", GOOD), undefined);
  });

  it("has the span as its parent and says whether it is sampled", () => {
    const next = childTraceFields(span, received("traceparent", GOOD, "tracestate", "a=1"));
    assert.deepEqual(next, { traceparent: `00-${TRACE}-${span.spanId}-01`, tracestate: "a=1" });
    const unsampled = childTraceFields({ ...span, sampled: false }, received("traceparent", GOOD));
    assert.equal(unsampled.traceparent, `00-${TRACE}-${span.spanId}-00`);
    assert.equal(childTraceFields(span, undefined).tracestate, undefined);
  });

  it("keeps the mark of a random id, and no flag that nobody knows", () => {
    const flags = (text: string) => {
      const from = received("traceparent", `00-${TRACE}-${PARENT}-${text}`);
      return childTraceFields({ ...span, sampled: false }, from).traceparent.slice(-2);
    };
    assert.deepEqual(
      [flags("02"), flags("03"), flags("fc"), flags("ff")],
      ["02", "02", "00", "02"],
    );
  });
});
