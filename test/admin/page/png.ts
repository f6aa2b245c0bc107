import assert from "node:assert/strict";
import { crc32, deflateSync, inflateSync } from "node:zlib";

/** Reads the PNG files that a browser writes, and makes them small: 256 colours are enough for a page. */

const SIGNATURE = "\x89PNG\r\n\x1a\n";
const COLOURS_MAX = 256;
const PALETTE = 3;
/** Bytes of a pixel by the colour type of the header; 8 bits for each. */
const BYTES_BY_TYPE: Readonly<Record<number, number>> = { 2: 3, [PALETTE]: 1, 6: 4 };

export type Png = {
  readonly width: number;
  readonly height: number;
  /** Bytes of a pixel. */
  readonly bytes: number;
  /** All pixels, row by row. */
  readonly pixels: Buffer;
};

/** A picture from the bytes of its file, which have to be whole. */
export function readPng(file: Buffer): Png {
  assert.equal(file.subarray(0, SIGNATURE.length).toString("latin1"), SIGNATURE);
  const chunks = [...chunksOf(file)];
  assert.equal(chunks.at(-1)?.name, "IEND");
  const head = chunks[0]?.body ?? Buffer.alloc(0);
  const width = head.readUInt32BE(0);
  const height = head.readUInt32BE(4);
  const bytes = BYTES_BY_TYPE[head.readUInt8(9)] ?? 0;
  const data = chunks.filter(({ name }) => name === "IDAT").map(({ body }) => body);
  const filtered = inflateSync(Buffer.concat(data));
  assert.equal(filtered.length, (width * bytes + 1) * height);
  return { width, height, bytes, pixels: unfilter(filtered, width * bytes, bytes) };
}

function* chunksOf(file: Buffer) {
  for (let at = SIGNATURE.length; at < file.length; ) {
    const length = file.readUInt32BE(at);
    const body = file.subarray(at + 8, at + 8 + length);
    const sum = file.readUInt32BE(at + 8 + length);
    assert.equal(crc32(file.subarray(at + 4, at + 8 + length)), sum, "a damaged chunk");
    yield { name: file.toString("latin1", at + 4, at + 8), body };
    at += length + 12;
  }
}

/** Takes back the filter of each row (PNG, third edition, 9.2). */
function unfilter(filtered: Buffer, rowBytes: number, bytes: number): Buffer {
  const rows = filtered.length / (rowBytes + 1);
  const pixels = Buffer.alloc(rowBytes * rows);
  for (let y = 0; y < rows; y++) {
    const filter = filtered[y * (rowBytes + 1)] ?? 0;
    for (let x = 0; x < rowBytes; x++) {
      const at = y * rowBytes + x;
      const left = x >= bytes ? (pixels[at - bytes] ?? 0) : 0;
      const up = y > 0 ? (pixels[at - rowBytes] ?? 0) : 0;
      const corner = x >= bytes && y > 0 ? (pixels[at - rowBytes - bytes] ?? 0) : 0;
      const value = filtered[y * (rowBytes + 1) + 1 + x] ?? 0;
      pixels[at] = value + predicted(filter, left, up, corner);
    }
  }
  return pixels;
}

function predicted(filter: number, left: number, up: number, corner: number): number {
  if (filter === 0) return 0;
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  const [toLeft, toUp] = [Math.abs(up - corner), Math.abs(left - corner)];
  const toCorner = Math.abs(left + up - 2 * corner);
  if (toLeft <= toUp && toLeft <= toCorner) return left;
  return toUp <= toCorner ? up : corner;
}

/** The same picture with its 256 commonest colours; every other one becomes the nearest of them. */
export function smallPng({ width, height, bytes, pixels }: Png): Buffer {
  const counts = new Map<number, number>();
  const colourAt = (pixel: number) => pixels.readUIntBE(pixel * bytes, 3);
  for (let i = 0; i < width * height; i++) {
    counts.set(colourAt(i), (counts.get(colourAt(i)) ?? 0) + 1);
  }
  const common = [...counts].toSorted((a, b) => b[1] - a[1]).map(([colour]) => colour);
  const palette = common.slice(0, COLOURS_MAX);
  const places = new Map(common.map((colour) => [colour, nearest(palette, colour)]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let i = 0; i < width * height; i++) {
    rows[i + Math.floor(i / width) + 1] = places.get(colourAt(i)) ?? 0;
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, PALETTE, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from(SIGNATURE, "latin1"),
    chunk("IHDR", head),
    chunk("PLTE", Buffer.concat(palette.map(colourBytes))),
    chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function nearest(palette: readonly number[], colour: number): number {
  let best = 0;
  for (let i = 0; i < palette.length; i++) {
    if (distance(palette[i] ?? 0, colour) < distance(palette[best] ?? 0, colour)) best = i;
  }
  return best;
}

function distance(one: number, other: number): number {
  const [a, b] = [colourBytes(one), colourBytes(other)];
  return [0, 1, 2].reduce((sum, i) => sum + ((a[i] ?? 0) - (b[i] ?? 0)) ** 2, 0);
}

function colourBytes(colour: number): Buffer {
  return Buffer.from([colour >> 16, (colour >> 8) & 255, colour & 255]);
}

function chunk(name: string, body: Buffer): Buffer {
  const whole = Buffer.alloc(body.length + 12);
  whole.writeUInt32BE(body.length, 0);
  whole.write(name, 4, "latin1");
  whole.set(body, 8);
  whole.writeUInt32BE(crc32(whole.subarray(4, body.length + 8)), body.length + 8);
  return whole;
}
