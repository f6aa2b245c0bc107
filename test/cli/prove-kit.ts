import assert from "node:assert/strict";
import { runTollgate } from "../support/gateway/processes.ts";
import { jsonOf } from "./kit.ts";

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
    timeoutMs: 80_000,
  });
  assert.ok(stdout !== "", stderr);
  return { code, told: jsonOf<Told>({ out: stdout }) };
}
