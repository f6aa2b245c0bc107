export const BUCKET_COUNT = 16;
const SLOT_COUNT = 16_384;

/** The effect of each byte on the checksum: eight steps of the division at once. */
const CRC_STEPS = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});

/** CRC-16/XMODEM, with which Redis Cluster hashes keys. */
export function crc16(text: string): number {
  const bytes = Buffer.from(text);
  let crc = 0;
  for (let i = 0; i < bytes.length; i++) {
    crc = ((crc << 8) ^ (CRC_STEPS[(crc >> 8) ^ (bytes[i] as number)] as number)) & 0xffff;
  }
  return crc;
}

/** The slot of a bucket: the slot of its number, which is the part of the keys in braces. */
export function bucketSlot(bucket: number): number {
  return crc16(String(bucket)) % SLOT_COUNT;
}

/** The hash slot group of a Tollgate key, `prefix:{bucket}:...`. */
export function keyBucket(key: string): number {
  return Number(/\{(\d+)\}/.exec(key)?.[1]);
}
