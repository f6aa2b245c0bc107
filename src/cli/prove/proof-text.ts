import { formatCount } from "../../base/messages.ts";
import { styleOf } from "../framework/table.ts";
import type { Terminal } from "../framework/terminal.ts";
import type { ProofReport } from "./proof-report.ts";

/** No promise is known to have held where nothing was admitted, or no limit was reached. */
const NO_LOAD = "noLoad";

/** The promises that did not hold, named by the members of the proof that show it. */
export function findBroken(proof: ProofReport): readonly string[] {
  const counts = {
    ...{ overLimit: proof.overLimit, falseRefusals: proof.falseRefusals },
    ...{ untrueHeaders: proof.untrueHeaders, doubleForwards: proof.doubleForwards },
    ...{ chargesLost: proof.chargesLost, chargesDoubled: proof.chargesDoubled },
    ...{ historyLost: proof.historyLost, historyDoubled: proof.historyDoubled },
    metersOff: proof.metersOff,
    ...{ bansIgnored: proof.bansIgnored, otherAnswers: proof.otherAnswers },
  };
  const broken = Object.entries(counts).flatMap(([name, count]) => (count > 0 ? [name] : []));
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
  const rows: readonly (readonly [string, string, string])[] = [
    [
      "overLimit",
      "admitted over a limit",
      `${proof.overLimit} in ${formatCount(proof.windows, "window")}`,
    ],
    ["falseRefusals", "false refusals", `${proof.falseRefusals} of ${refused}`],
    ["untrueHeaders", "headers that were not true", String(proof.untrueHeaders)],
    ["doubleForwards", "double forwards", `${proof.doubleForwards} of ${proof.forwarded}`],
    ["chargesLost", "charges lost", lossesOf(proof)],
    ["chargesDoubled", "charges doubled", String(proof.chargesDoubled)],
    ["historyLost", "units that the history lacks", String(proof.historyLost)],
    ["historyDoubled", "units too many in the history", String(proof.historyDoubled)],
    ["metersOff", "units of meters that are off", String(proof.metersOff)],
    [
      "bansIgnored",
      "admitted during a ban",
      `${proof.bansIgnored}, ${proof.bannedRefusals} refused`,
    ],
    ["otherAnswers", "other answers than are promised", String(proof.otherAnswers)],
  ];
  const lines = rows.map(([name, what, count]) => {
    return `  ${broken.includes(name) ? bold("BROKEN") : "ok    "}  ${what.padEnd(36)}  ${count}`;
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
