import fc from "fast-check";

/** All ways to cut bytes in two. */
export function* everyCut(bytes: Buffer): Generator<Buffer[]> {
  for (let at = 1; at < bytes.length; at++) yield [bytes.subarray(0, at), bytes.subarray(at)];
}

export function singly(bytes: Buffer): Buffer[] {
  return cutAt(
    bytes,
    Array.from(bytes, () => 1),
  );
}

/** Pieces of the sizes given, over and over. */
export function cutAt(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] as number;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

/** Sizes of pieces: mostly a few bytes, where lines end. */
export const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 });
