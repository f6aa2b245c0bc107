import { formatCount } from "../../base/messages.ts";
import { styleOf } from "../framework/table.ts";
import type { Terminal } from "../framework/terminal.ts";
import type { ProofReport } from "./judge/proof-report.ts";

/** No promise is known to have held where nothing was admitted, or no limit was reached. */
const NO_LOAD = "noLoad";

/** By the member of a proof that counts what broke it: the promise, and how it is told. */
const PROMISES = {
  overLimit: {
    what: "admitted over a limit",
    tell: ({ overLimit, windows }) => `${overLimit} in ${formatCount(windows, "window")}`,
  },
  falseRefusals: {
    what: "false refusals",
    tell: ({ falseRefusals, refused }) => `${falseRefusals} of ${refused}`,
  },
  untrueHeaders: { what: "headers that were not true" },
  doubleForwards: {
    what: "double forwards",
    tell: ({ doubleForwards, forwarded }) => `${doubleForwards} of ${forwarded}`,
  },
  chargesLost: { what: "charges lost", tell: lossesOf },
  chargesDoubled: { what: "charges doubled" },
  historyLost: { what: "units that the history lacks" },
  historyDoubled: { what: "units too many in the history" },
  metersOff: { what: "units of meters that are off" },
  bansIgnored: {
    what: "admitted during a ban",
    tell: ({ bansIgnored, bannedRefusals }) => `${bansIgnored}, ${bannedRefusals} refused`,
  },
  otherAnswers: { what: "other answers than are promised" },
} as const satisfies Partial<Record<keyof ProofReport, PromiseText>>;

type PromiseText = { readonly what: string; readonly tell?: (proof: ProofReport) => string };
type PromiseName = keyof typeof PROMISES;
const ROWS = Object.entries(PROMISES) as [PromiseName, PromiseText][];

/** The promises that did not hold, named by the members of the proof that show it. */
export function findBroken(proof: ProofReport): readonly string[] {
  const broken = ROWS.flatMap(([name]) => (proof[name] > 0 ? [name] : []));
  return proof.admitted > 0 && proof.refused > 0 ? broken : [...broken, NO_LOAD];
}

/** The report for people: how the proof went, a line for each promise, and the verdict. */
export function proofText(
  proof: ProofReport,
  broken: readonly string[],
  terminal: Terminal,
): string {
  const { bold } = styleOf(terminal);
  const { gateways, store, requests, admitted, refused, unanswered } = proof;
  const done = [
    proof.storeAwayMs > 0
      ? `the store was away for ${(proof.storeAwayMs / 1_000).toFixed(1)} s`
      : "",
    proof.failover?.ok ? `the store failed over to ${proof.failover.master}` : "",
    proof.lateAnswers > 0 ? `${formatCount(proof.lateAnswers, "answer")} of it came late` : "",
    proof.gatewaysKilled > 0 ? "a gateway was killed" : "",
  ].filter((text) => text !== "");
  const untried = [
    proof.storeAwayMs > 0 ? "" : "the store was not taken away",
    proof.failover?.ok === false ? `no failover: ${proof.failover.why}` : "",
    proof.gatewaysKilled > 0 ? "" : "no gateway was killed",
  ].filter((text) => text !== "");
  const lines = ROWS.map(([name, { what, tell }]) => {
    const verdict = broken.includes(name) ? bold("BROKEN") : "ok    ";
    return `  ${verdict}  ${what.padEnd(36)}  ${tell?.(proof) ?? proof[name]}`;
  });
  return `${[
    `${formatCount(gateways, "gateway")}, store: ${store}, ${formatCount(requests, "request")}: ${formatCount(admitted, "unit")} admitted, ${formatCount(refused, "request")} refused, ${unanswered} without an answer`,
    ...(done.length > 0 ? [`Meanwhile ${done.join(" and ")}`] : []),
    ...(untried.length > 0 ? [`Not tried: ${untried.join(", ")}`] : []),
    ...lines,
    `  longest wait: ${proof.longestWaitMs} ms`,
    ...(broken.length > 0 ? proof.examples.map((example) => `  ${example}`) : []),
    bold(verdictOf(proof, broken)),
  ].join("\n")}\n`;
}

function lossesOf({ chargesLost, killLost, failoverLost }: ProofReport): string {
  return [
    String(chargesLost),
    ...(killLost > 0 ? [`${killLost} by the gateway that was killed`] : []),
    ...(failoverLost > 0 ? [`${failoverLost} by the failover`] : []),
  ].join(", and ");
}

function verdictOf({ admitted }: ProofReport, broken: readonly string[]): string {
  const known = broken.filter((name) => name !== NO_LOAD);
  if (known.length > 0) return `Not every promise held: ${broken.join(", ")}`;
  if (broken.length === 0) return "Every promise held";
  const why = admitted === 0 ? "no request was admitted" : "no limit was reached";
  return `Nothing is proven: ${why}. A longer proof sends more requests: --seconds`;
}
