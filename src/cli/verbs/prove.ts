import { quoteValue } from "../../base/messages.ts";
import { parseStoreAddress, type RedisAddress } from "../../config/schema/addresses.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { printJson } from "../framework/terminal.ts";
import { CONFIG_IGNORED, type Invocation, JSON_FLAG, type Verb } from "../framework/verb.ts";
import { findBroken, proofText } from "../prove/proof-text.ts";
import { PLANTED_FAULTS, type PlantedFault } from "../prove/trial/workload.ts";

const SECONDS = { least: 3, most: 86_400, usual: 20 };
const GATEWAYS = { least: 1, most: 16, usual: 2 };

/** Shows on this machine whether the promises hold. */
export const prove: Verb = {
  name: "prove",
  usage: "[--gateways N] [--redis URL] [--seconds S] [--break FAULT] [--config FILE] [--json]",
  summary: "load gateways of its own, take their store away, and tell whether every promise holds",
  options: [
    { name: "gateways", value: "N", summary: "gateways that share the store (2)" },
    {
      name: "redis",
      value: "URL",
      summary: "a Redis to use, or a Sentinel or Cluster, which fails over (one of its own)",
    },
    { name: "seconds", value: "S", summary: "how long the load lasts (20)" },
    {
      name: "break",
      value: "FAULT",
      choices: PLANTED_FAULTS,
      summary: `plant a fault: ${PLANTED_FAULTS.join(", ")}`,
    },
    CONFIG_IGNORED,
    JSON_FLAG,
  ],
  args: [],
  example: "prove --gateways 4 --seconds 60",
  async run(invocation, terminal) {
    const gateways = readNumber(invocation.text("gateways"), GATEWAYS);
    const seconds = readNumber(invocation.text("seconds"), SECONDS);
    const fault = PLANTED_FAULTS.find((one) => one === invocation.text("break"));
    const redis = readRedis(invocation.text("redis"));
    const wrong = mistakeIn(invocation, { gateways, seconds, fault, redis });
    if (wrong !== undefined) return fail(terminal, EXIT_USAGE, wrong);
    const { runProof } = await import("../prove/proof.ts");
    const stopping = new AbortController();
    const stop = () => stopping.abort(new Error("Stopped before the end of the proof"));
    terminal.process.onEnd((cause) => {
      stop();
      if (cause !== "parent gone") terminal.process.endBy(cause);
    });
    // A terminal that closes sends SIGHUP.
    terminal.process.onHangUp(stop);
    const proof = await runProof({
      ...{ gateways: gateways ?? 0, seconds: seconds ?? 0, fault },
      redis: typeof redis === "string" ? undefined : redis,
      self: terminal.process.self,
      tell: (doing) => {
        if (terminal.isErrTty) terminal.err(`${doing}\n`);
      },
      signal: stopping.signal,
    });
    const broken = findBroken(proof);
    if (invocation.flag("json")) printJson(terminal, { ...proof, broken });
    else terminal.out(proofText(proof, broken, terminal));
    return broken.length === 0 ? EXIT_OK : EXIT_FAILURE;
  },
};

function readNumber(
  text: string | undefined,
  { least, most, usual }: typeof SECONDS,
): number | undefined {
  if (text === undefined) return usual;
  const value = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  return value >= least && value <= most ? value : undefined;
}

type ProveArguments = {
  readonly gateways: number | undefined;
  readonly seconds: number | undefined;
  readonly fault: PlantedFault | undefined;
  readonly redis: RedisAddress | string | undefined;
};

/** The address, or the mistake in it. */
function readRedis(text: string | undefined): RedisAddress | string | undefined {
  if (text === undefined) return undefined;
  const read = parseStoreAddress(text);
  if (!("value" in read)) return read.why;
  return read.value.kind === "memory" ? "the memory of one process is no Redis" : read.value;
}

function mistakeIn(
  invocation: Invocation,
  { gateways, seconds, fault, redis }: ProveArguments,
): string | undefined {
  const cannot = (option: string, wanted: string) =>
    `Cannot use --${option} ${quoteValue(invocation.text(option))}: it must be ${wanted}`;
  if (gateways === undefined)
    return cannot("gateways", `a whole number from ${GATEWAYS.least} to ${GATEWAYS.most}`);
  if (seconds === undefined) {
    return cannot("seconds", `a whole number of seconds from ${SECONDS.least} to ${SECONDS.most}`);
  }
  if (invocation.text("break") !== undefined && fault === undefined) {
    return cannot("break", `one of ${PLANTED_FAULTS.join(", ")}`);
  }
  // The address may hold a password, so it is not repeated.
  return typeof redis === "string" ? `Cannot use --redis: ${redis}` : undefined;
}
