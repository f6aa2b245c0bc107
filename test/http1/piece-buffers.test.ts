import assert from "node:assert/strict";
import { it } from "vitest";
import { copyToPool, READ_BYTES_MAX, recycleBuffer } from "../../src/http1/client/buffer-pool.ts";
import { each } from "../support/each.ts";

const filled = (bytes: number, letter: string) => Buffer.alloc(bytes, letter);

it("a copy has the bytes that were asked for, whatever its size, and is the caller's own", () => {
  const bytes = Buffer.from("0123456789".repeat(9_000));
  for (const size of [0, 1, 4_096, 32_767, 32_768, 65_535, READ_BYTES_MAX, READ_BYTES_MAX + 1]) {
    const copy = copyToPool(bytes, 3, 3 + size);
    assert.ok(copy.equals(bytes.subarray(3, 3 + size)), `${size} bytes`);
    const before = Buffer.from(copy);
    bytes.fill("x", 3, 3 + size);
    assert.ok(copy.equals(before), "what it was copied from changes");
    bytes.set(before, 3);
  }
});

it("a large piece that was taken back is the next one's, and no other", () => {
  const first = copyToPool(filled(READ_BYTES_MAX, "a"), 0, READ_BYTES_MAX);
  const held = copyToPool(filled(READ_BYTES_MAX, "b"), 0, READ_BYTES_MAX);
  assert.ok(recycleBuffer(first));
  const next = copyToPool(filled(40_000, "c"), 0, 40_000);
  assert.equal(next.buffer, first.buffer);
  assert.equal(next.length, 40_000);
  const another = copyToPool(filled(READ_BYTES_MAX, "d"), 0, READ_BYTES_MAX);
  assert.notEqual(another.buffer, next.buffer, "taken back once, given once");
  assert.ok(next.every((byte) => byte === 0x63) && each(held).every((byte) => byte === 0x62));
});

it("pieces from 32 KiB to the most that one read brings are taken back", () => {
  for (const size of [32_768, READ_BYTES_MAX]) {
    assert.ok(recycleBuffer(copyToPool(filled(size, "a"), 0, size)), `${size} bytes`);
  }
});

it("pieces that are small, too large, or of others are not taken back", () => {
  for (const size of [1, 32_767, READ_BYTES_MAX + 1]) {
    assert.equal(recycleBuffer(copyToPool(filled(size, "a"), 0, size)), false, `${size} bytes`);
  }
  assert.equal(recycleBuffer(Buffer.from("a")), false);
  assert.equal(
    recycleBuffer(copyToPool(filled(READ_BYTES_MAX, "a"), 0, READ_BYTES_MAX).subarray(1)),
    false,
    "a part of one",
  );
});

it("buffers that only look like those of a piece are not taken back", () => {
  const whole = Buffer.allocUnsafeSlow(READ_BYTES_MAX);
  assert.equal(recycleBuffer(whole), false, "its size is that of ours");
  assert.equal(recycleBuffer(whole.subarray(0, 40_000)), false, "the first part of such a one");
  const piece = copyToPool(filled(READ_BYTES_MAX, "a"), 0, READ_BYTES_MAX);
  assert.equal(recycleBuffer(Buffer.from(piece.buffer)), false, "another view of ours");
  assert.equal(recycleBuffer(piece.subarray(0)), false, "all of ours, by another name");
  assert.ok(recycleBuffer(piece), "and the piece itself still is");
});

it("a piece is taken back once, also when its buffer is out again", () => {
  const piece = copyToPool(filled(READ_BYTES_MAX, "a"), 0, READ_BYTES_MAX);
  assert.ok(recycleBuffer(piece));
  assert.equal(recycleBuffer(piece), false, "while it is free");
  const next = copyToPool(filled(READ_BYTES_MAX, "b"), 0, READ_BYTES_MAX);
  assert.equal(next.buffer, piece.buffer);
  assert.equal(recycleBuffer(piece), false, "while another answer has it");
  const other = copyToPool(filled(READ_BYTES_MAX, "c"), 0, READ_BYTES_MAX);
  assert.notEqual(other.buffer, next.buffer);
  assert.ok(recycleBuffer(next) && recycleBuffer(other));
});

it("keeps at most 32 free ones: two and a half megabytes", () => {
  const pieces = Array.from({ length: 40 }, () =>
    copyToPool(filled(READ_BYTES_MAX, "a"), 0, READ_BYTES_MAX),
  );
  for (const piece of pieces) assert.ok(recycleBuffer(piece));
  const given = new Set(pieces.map(({ buffer }) => buffer));
  const again = Array.from({ length: 40 }, () =>
    copyToPool(filled(READ_BYTES_MAX, "b"), 0, READ_BYTES_MAX),
  );
  assert.equal(again.filter(({ buffer }) => given.has(buffer)).length, 32);
});
