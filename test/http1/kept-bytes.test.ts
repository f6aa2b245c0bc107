import { describe, expect, it } from "vitest";
import { ReadBuffer } from "../../src/http1/parse/read-buffer.ts";

const textOf = ({ bytes, length }: ReadBuffer) => bytes.toString("latin1", 0, length);

describe("bytes that are kept", () => {
  it("are those that were appended, in order, whatever becomes of their buffers", () => {
    const kept = new ReadBuffer();
    let all = "";
    for (let i = 0; i < 300; i++) {
      const piece = Buffer.from(`<${i}>`);
      kept.append(piece, 1, piece.length);
      all += `${i}>`;
      piece.fill("x");
      expect(kept.length).toBe(all.length);
    }
    expect(textOf(kept)).toBe(all);
  });

  it("stay what they are for who was given a part of them, while more come", () => {
    const kept = new ReadBuffer();
    kept.append(Buffer.from("abc"), 0, 3);
    kept.append(Buffer.from("de"), 0, 2);
    const part = kept.bytes.subarray(0, kept.length);
    for (let i = 0; i < 100; i++) kept.append(Buffer.from("fgh"), 0, 3);
    expect(part.toString()).toBe("abcde");
  });

  it("grow by doubling, so that byte after byte costs a few times their number", () => {
    const kept = new ReadBuffer();
    const byte = Buffer.from("x");
    const buffers = new Set<Buffer>();
    for (let i = 0; i < 10_000; i++) {
      kept.append(byte, 0, 1);
      buffers.add(kept.bytes);
    }
    expect(kept.length).toBe(10_000);
    expect(buffers.size).toBeLessThan(20);
    expect(kept.bytes.length).toBeLessThan(40_000);
  });

  it("fill the room that is there before they grow", () => {
    const kept = new ReadBuffer();
    kept.append(Buffer.from("a"), 0, 1);
    kept.append(Buffer.from("b"), 0, 1);
    const { bytes } = kept;
    const room = bytes.length - kept.length;
    kept.append(Buffer.alloc(room, "c"), 0, room);
    expect(kept.bytes).toBe(bytes);
  });

  it("take room for themselves alone, wherever they stood", () => {
    const kept = new ReadBuffer();
    kept.append(Buffer.alloc(2_000), 1_000, 1_001);
    expect(kept.bytes.length).toBeLessThan(10);
  });

  it("are forgotten, with their buffer", () => {
    const kept = new ReadBuffer();
    kept.append(Buffer.from("abc"), 0, 3);
    kept.clear();
    expect([kept.length, kept.bytes.length]).toEqual([0, 0]);
  });
});
