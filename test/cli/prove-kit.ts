import assert from "node:assert/strict";
import { runTollgate } from "../support/gateway/processes.ts";
import { jsonOf, runVerb } from "./kit.ts";

/** Beside other work that takes all of a machine, a proof of eight seconds needs more than eighty. */
export const PROOF_MS_MAX = 300_000;

/** The part of the report that tests read. */
export type Told = {
  gateways: number;
  store: string;
  admitted: number;
  refused: number;
  forwarded: number;
  storeAwayMs: number;
  gatewaysKilled: number;
  failoverLost: number;
  failover: { ok: boolean; master?: string; why?: string } | null;
  lateAnswers: number;
  broken: string[];
  examples: string[];
  away: { fromMs: number; toMs: number }[];
};

/** Runs a proof to its end, in a process of its own. */
export async function prove(...args: string[]) {
  const { code, stdout, stderr } = await runTollgate(["prove", "--json", ...args], {
    timeoutMs: PROOF_MS_MAX,
  });
  assert.ok(stdout !== "", `no report; stderr: ${stderr}`);
  return { code, told: jsonOf<Told>({ out: stdout }) };
}

/** Runs a proof to its end whose gateways alone are processes: the load and the judge are here. */
export async function proveHere(...args: string[]) {
  const said = await runVerb(["prove", "--json", ...args]);
  assert.equal(said.err, "");
  return { code: said.status, told: jsonOf<Told>(said) };
}

/** Enough was admitted and refused to say that promises were kept. */
export function wasBusy({ admitted, refused }: Told): boolean {
  return admitted > 100 && refused > 100;
}
