import type { BanCause } from "../quota-store.ts";

const BY_HAND = /^(\d{1,16}) (\d{1,16}) h (.*)$/su;
const BY_STRIKES = /^(\d{1,16}) (\d{1,16}) k (\d[\d ]*)$/;

/** The text of field `c`; undefined if it is damaged. */
export function parseBanCause(text: string): BanCause | undefined {
  const byHand = BY_HAND.exec(text);
  if (byHand !== null) {
    const [untilMs, atMs] = [Number(byHand[1]), Number(byHand[2])];
    return { untilMs, atMs, imposed: true, reason: byHand[3] as string, strikesMs: [] };
  }
  const byStrikes = BY_STRIKES.exec(text);
  if (byStrikes === null) return undefined;
  const [untilMs, atMs] = [Number(byStrikes[1]), Number(byStrikes[2])];
  const strikesMs = (byStrikes[3] as string).split(" ").map(Number);
  return { untilMs, atMs, imposed: false, reason: "", strikesMs };
}
