import type { Reporter } from "../../telemetry/log/log.ts";
import type { Subscriber } from "./link.ts";
import { deniedCommand, type StoreFailure, toStoreFailure } from "./store-failure.ts";

/** Called with what the user may not do, or without a failure once it may. */
export type TellDenied = (what: string, failure?: StoreFailure) => void;

/** The effect of a missing right on the messages between gateways. */
const LEARN_LATE = "gateways learn late of each other's changes, or of those that commands make";

/**
 * Reports a right that the user lacks, once until it is granted: requests are decided without it, so
 * nothing else would show it.
 */
export function deniedReporter(
  shown: string,
  report: Reporter,
  meaning: string = LEARN_LATE,
): TellDenied {
  const denied = new Map<string, string>();
  return (what, failure) => {
    if (failure === undefined) denied.delete(what);
    if (failure?.code !== "NOPERM") return;
    // A script fails for what it runs, if Redis names that, or for EVAL itself.
    const command = deniedCommand(failure);
    const right = command === undefined || what.includes(command) ? what : command;
    if (denied.get(what) === right) return;
    denied.set(what, right);
    const why = `the user has no right to ${right}, or Redis has no such command, so ${meaning}: docs/operations.md lists the rights`;
    report("error", "store_right_missing", { store: shown, why });
  };
}

/** Settles as the answer does, and tells whether the user may have it. */
export async function tellingDenied<T>(
  tell: TellDenied,
  what: string,
  answer: Promise<T>,
): Promise<T> {
  try {
    const reply = await answer;
    tell(what);
    return reply;
  } catch (error) {
    tell(what, toStoreFailure(error));
    throw error;
  }
}

/** A subscriber that tells whether the user may subscribe. */
export function tellingRefused(
  tell: TellDenied,
  channel: string,
  { message, up }: Pick<Subscriber, "message" | "up">,
): Subscriber {
  const what = `SUBSCRIBE ${channel}`;
  return {
    message,
    up: () => {
      tell(what);
      up();
    },
    refused: (failure) => tell(what, failure),
  };
}
