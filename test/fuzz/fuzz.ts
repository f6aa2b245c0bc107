import type { Wrong } from "./answers.ts";
import { type Case, caseOf } from "./mutate.ts";
import { openTarget, type Target } from "./target.ts";

export type FuzzOptions = {
  readonly cases: number;
  readonly seed: number;
  /** Connections at once. */
  readonly lanes?: number;
  readonly onBatch?: (done: number, findings: number) => void;
};

/** `bytes` are the smallest found that show it; undefined where no single case does. */
export type Finding = Wrong & {
  readonly cases: string;
  readonly bytes: Buffer | undefined;
};

export type Fuzzed = {
  readonly findings: readonly Finding[];
  readonly statuses: ReadonlyMap<number, number>;
  readonly forwarded: number;
};

const BATCH = 500;
/** Further findings of one kind are counted but not looked into. */
const LOOKED_INTO_MAX = 3;

/**
 * Sends so many cases to one gateway and checks, batch by batch, that the law holds
 * (docs/reference/http.md#law).
 */
export async function fuzz({ cases, seed, lanes = 24, onBatch }: FuzzOptions): Promise<Fuzzed> {
  await using target = await openTarget();
  const findings: Finding[] = [];
  const statuses = new Map<number, number>();
  for (let from = 0; from < cases; from += BATCH) {
    const to = Math.min(cases, from + BATCH);
    const owners = new Map<string, Case>();
    const found: { wrong: Wrong; of: Case | undefined }[] = [];
    let next = from;
    const lane = async () => {
      while (next < to) {
        const one = caseOf(seed, next++);
        const sent = await target.send(one);
        for (const status of sent.statuses) statuses.set(status, (statuses.get(status) ?? 0) + 1);
        for (const id of sent.requestIds) owners.set(id, one);
        found.push(...sent.wrong.map((wrong) => ({ wrong, of: one })));
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    for (const wrong of await target.law()) {
      found.push({ wrong, of: owners.get(wrong.requestId ?? "") });
    }
    for (const { wrong, of } of found) {
      const known = findings.filter(({ kind }) => kind === wrong.kind).length;
      const bytes =
        of === undefined || known >= LOOKED_INTO_MAX
          ? undefined
          : await minimise(target, of, wrong);
      const numbers = of === undefined ? `${from} to ${to - 1}` : String(of.number);
      findings.push({ ...wrong, cases: numbers, bytes: bytes ?? (of && Buffer.concat(of.pieces)) });
    }
    onBatch?.(to, findings.length);
    if (findings.some(({ kind }) => kind === "dead")) break;
  }
  return { findings, statuses, forwarded: target.backend.seen.length };
}

const TRIES_MAX = 80;

/** Leaves out pieces, halving their length, as long as what is left shows the same kind of mistake. */
async function minimise(target: Target, of: Case, { kind }: Wrong): Promise<Buffer | undefined> {
  let bytes = Buffer.concat(of.pieces);
  let tries = 0;
  const shows = async (pieces: readonly Buffer[]) => {
    tries += 1;
    const sent = await target.send({ pieces, halfClose: of.halfClose });
    return [...sent.wrong, ...(await target.law())].some((wrong) => wrong.kind === kind);
  };
  if (!(await shows(of.pieces))) return undefined;
  for (let length = bytes.length >> 1; length >= 1 && tries < TRIES_MAX; length >>= 1) {
    for (let at = 0; at < bytes.length && tries < TRIES_MAX; ) {
      const shorter = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)]);
      if (await shows([shorter])) bytes = shorter;
      else at += length;
    }
  }
  return bytes;
}
