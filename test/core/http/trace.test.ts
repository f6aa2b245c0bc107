import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { continueTrace, type Trace } from "../../../src/core/http/trace.ts";

const RANDOM = "1234567890abcdef1234567890abcdef" + "fedcba0987654321";
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const GOOD = `00-${TRACE}-${PARENT}-01`;

const go = (parents: readonly string[], states: readonly string[] = []): Trace => {
  return continueTrace({ parents, states }, RANDOM);
};

describe("A valid traceparent is continued under a new parent", () => {
  const CONTINUED: Readonly<Record<string, readonly [received: string, flags: string]>> = {
    sampled: [GOOD, "01"],
    "not sampled": [`00-${TRACE}-${PARENT}-00`, "00"],
    "random (level 2)": [`00-${TRACE}-${PARENT}-02`, "02"],
    "sampled and random": [`00-${TRACE}-${PARENT}-03`, "03"],
    "flags that nobody knows, which go to zero": [`00-${TRACE}-${PARENT}-ff`, "03"],
    "other flags that nobody knows": [`00-${TRACE}-${PARENT}-fc`, "00"],
    "a later version": [`01-${TRACE}-${PARENT}-01`, "01"],
    "a later version with more behind it": [`cc-${TRACE}-${PARENT}-01-what-comes`, "01"],
    "a later version with an end of nothing": [`fe-${TRACE}-${PARENT}-01-`, "01"],
    "a trace id with a single digit": [`00-${"1".padStart(32, "0")}-${PARENT}-01`, "01"],
    "a parent id with a single digit": [`00-${TRACE}-${"1".padStart(16, "0")}-01`, "01"],
  };
  for (const [name, [received, flags]] of Object.entries(CONTINUED)) {
    it(name, () => {
      const { traceparent, continued } = go([received]);
      const traceId = received.split("-")[1];
      assert.equal(traceparent, `00-${traceId}-${RANDOM.slice(32)}-${flags}`);
      assert.equal(continued, true);
    });
  }
});

describe("Anything else starts a new trace, and its tracestate goes with the old one:", () => {
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
      const { traceparent, tracestate, continued } = go(received, ["a=b"]);
      assert.equal(traceparent, `00-${RANDOM.slice(0, 32)}-${RANDOM.slice(32)}-00`);
      assert.deepEqual([tracestate, continued], [undefined, false]);
    });
  }

  it("whatever comes, what goes on is a valid traceparent that begins or continues one trace", () => {
    const hex = (length: number) =>
      fc.string({
        minLength: length,
        maxLength: length,
        unit: fc.constantFrom(..."0123456789abcdef"),
      });
    const near = fc
      .tuple(hex(2), hex(32), hex(16), hex(2), fc.constantFrom("", "-", "-a", "a"))
      .map(
        ([version, trace, parent, flags, rest]) => `${version}-${trace}-${parent}-${flags}${rest}`,
      );
    fc.assert(
      fc.property(
        fc.array(fc.oneof(near, fc.string()), { maxLength: 2 }),
        fc.array(fc.string()),
        (parents, states) => {
          const { traceparent, tracestate = "a=b", continued } = go(parents, states);
          assert.match(traceparent, /^00-(?!0{32})[0-9a-f]{32}-fedcba0987654321-0[0-3]$/);
          assert.equal(traceparent.slice(3, 35) === parents[0]?.slice(3, 35), continued);
          assert.match(tracestate, /^[\x20-\x7e]+$/);
          assert.ok(tracestate.length <= 512 && tracestate.split(",").length <= 32);
        },
      ),
    );
  });
});

describe("A tracestate goes on with its trace:", () => {
  const state = (...states: string[]) => go([GOOD], states).tracestate;
  const many = (count: number, length = 5) =>
    Array.from({ length: count }, (_, i) => `k${i}=`.padEnd(length, "v"));

  it("as it came, several fields as one list, in order", () => {
    assert.equal(state("a=1,b=2"), "a=1,b=2");
    assert.equal(state("a=1", "b=2", "c=3"), "a=1,b=2,c=3");
    assert.equal(state("rojo=00f067aa0ba902b7,1t@sys=x y"), "rojo=00f067aa0ba902b7,1t@sys=x y");
  });

  it("without its blanks and its empty members", () => {
    assert.equal(state(" a=1 ,\t, b=2,,"), "a=1,b=2");
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

  it("up to 512 characters: then the long members go first, and after them the last ones", () => {
    const whole = `a=${"v".repeat(254)},b=${"v".repeat(253)}`;
    assert.equal(whole.length, 512);
    assert.equal(state(whole), whole);
    assert.equal(state(`${whole}v,c=1`), "c=1");
    const short = many(32, 20);
    assert.equal(state(short.join()), short.slice(0, 24).join());
    const [kept, long] = ["kept=".padEnd(128, "v"), "long=".padEnd(129, "v")];
    assert.equal(state([long, kept, ...many(19, 20)].join()), [kept, ...many(18, 20)].join());
    const exact = [...many(24, 20), "exact=7"].join();
    assert.equal(exact.length, 511);
    assert.equal(state([long, `${exact}8`].join()), `${exact}8`);
    assert.equal(state([long, `${exact}89`].join()), many(24, 20).join());
  });
});
