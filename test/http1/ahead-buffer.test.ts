import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AheadBuffer } from "../../src/http1/server/ahead-buffer.ts";

function append(ahead: AheadBuffer, bytes: Buffer): void {
  ahead.append(bytes, 0, bytes.length);
}

function take(ahead: AheadBuffer): string | undefined {
  const part = ahead.take();
  return part?.bytes.toString("latin1", part.from, part.to);
}

function takeAll(ahead: AheadBuffer): string {
  let all = "";
  for (let text = take(ahead); text !== undefined; text = take(ahead)) all += text;
  return all;
}

describe("bytes that were sent ahead", () => {
  it("come out in their order, whatever part of them was read and put back, and when", () => {
    const steps = fc.array(
      fc.oneof(
        fc.record({ append: fc.string({ minLength: 1, maxLength: 9 }) }),
        fc.record({ putBack: fc.integer({ min: 0, max: 9 }) }),
      ),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(steps, (all) => {
        const ahead = new AheadBuffer();
        let appended = "";
        let read = "";
        for (const step of all) {
          if ("append" in step) {
            const text = Buffer.from(step.append, "latin1");
            append(ahead, text);
            appended += text.toString("latin1");
            text.fill("x");
          } else {
            const { bytes, from = 0, to = 0 } = ahead.take() ?? {};
            const at = Math.min(to, from + step.putBack);
            read += bytes?.toString("latin1", from, at) ?? "";
            if (bytes !== undefined && at < to) ahead.putBack(bytes, at, to);
          }
          expect(ahead.length).toBe(appended.length - read.length);
        }
        expect(read + takeAll(ahead)).toBe(appended);
        expect([ahead.length, ahead.take()]).toEqual([0, undefined]);
      }),
    );
  });

  it("stay where they are when they are put back, and take no room for what comes behind", () => {
    const ahead = new AheadBuffer();
    const body = Buffer.alloc(65_000, "a");
    ahead.putBack(body, 100, 65_000);
    append(ahead, Buffer.from("tail"));
    const first = ahead.take();
    expect([first?.bytes, first?.from, first?.to]).toEqual([body, 100, 65_000]);
    const second = ahead.take();
    expect(second?.bytes.length).toBeLessThan(10);
    expect(second?.bytes.toString("latin1", second.from, second.to)).toBe("tail");
  });

  it("are not written over by what comes later", () => {
    const ahead = new AheadBuffer();
    append(ahead, Buffer.from("mine"));
    const part = ahead.take();
    for (let i = 0; i < 100; i++) append(ahead, Buffer.from("other"));
    expect(part?.bytes.toString("latin1", part.from, part.to)).toBe("mine");
  });

  it("are all forgotten", () => {
    const ahead = new AheadBuffer();
    ahead.putBack(Buffer.from("first"), 0, 5);
    append(ahead, Buffer.from("rest"));
    ahead.clear();
    expect([ahead.length, ahead.take()]).toEqual([0, undefined]);
  });
});
