import assert from "node:assert/strict";
import { runTollgate } from "../support/gateway/processes.ts";
import { jsonOf } from "./kit.ts";

const RUNS_MAX = 3;
/** Beside other work that takes all of a machine, a proof of eight seconds needs more than eighty. */
const PROOF_MS_MAX = 300_000;
/** For a test of some proofs, each of which has its own deadline. */
export const PROOFS_MS_MAX = 2 * PROOF_MS_MAX;

/** The part of the report that tests read. */
export type Told = {
  gateways: number;
  store: string;
  admitted: number;
  refused: number;
  storeAwayMs: number;
  gatewaysKilled: number;
  failover: { ok: boolean; master?: string; why?: string } | null;
  lateAnswers: number;
  broken: string[];
  examples: string[];
};

/** Runs a proof to its end. */
export async function prove(...args: string[]) {
  const { code, stdout, stderr } = await runTollgate(["prove", "--json", ...args], {
    timeoutMs: PROOF_MS_MAX,
  });
  assert.ok(stdout !== "", `no report; stderr: ${stderr}`);
  return { code, told: jsonOf<Told>({ out: stdout }) };
}

/**
 * Runs proofs, each twice as long as the one before, until one of them has seen what it must: a busy
 * machine sends few requests in a few seconds. Gives them all, the last one last.
 */
export async function proveUntil(
  seconds: number,
  hasSeen: (told: Told) => boolean,
  ...args: string[]
): Promise<Awaited<ReturnType<typeof prove>>[]> {
  const all: Awaited<ReturnType<typeof prove>>[] = [];
  for (let length = seconds; all.length < RUNS_MAX; length *= 2) {
    const one = await prove("--seconds", String(length), ...args);
    all.push(one);
    if (hasSeen(one.told)) break;
  }
  return all;
}

/** Enough was admitted and refused to say that promises were kept. */
export function wasBusy({ admitted, refused }: Told): boolean {
  return admitted > 100 && refused > 100;
}
