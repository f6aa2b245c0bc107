import { setTimeoutAfterPoll } from "../../base/event-loop.ts";

/**
 * Why a command has no answer. `executed: "no"` is certain, so the command may be sent again. With
 * "unknown" it may have been charged, so it is never sent again. The message never holds the
 * command's arguments or a password.
 */
export class StoreFailure extends Error {
  readonly code: string;
  readonly executed: "no" | "unknown";
  /** The time of the store's clock, if its refusal reports it. */
  readonly storeNowMs: number | undefined;
  /** The reply, if it may still come: its connection was silent for too long, and is still read. */
  readonly later: Promise<unknown> | undefined;

  constructor(
    code: string,
    message: string,
    executed: "no" | "unknown",
    storeNowMs?: number,
    later?: Promise<unknown>,
  ) {
    super(message);
    this.later = later;
    // Most commands have no use for it.
    later?.catch(() => undefined);
    this.storeNowMs = storeNowMs;
    this.name = "StoreFailure";
    this.code = code;
    this.executed = executed;
  }

  /** The same failure, with its place. */
  at(where: string): StoreFailure {
    const { code, message, executed, storeNowMs, later } = this;
    return new StoreFailure(code, `${message} (${where})`, executed, storeNowMs, later);
  }
}

/** The same error, with what `read` makes of the reply that may still come. */
export function readingLater(error: unknown, read: (reply: unknown) => unknown): unknown {
  if (!(error instanceof StoreFailure) || error.later === undefined) return error;
  const { code, message, executed } = error;
  return new StoreFailure(code, message, executed, undefined, error.later.then(read));
}

export function lateFailure(ms: number): StoreFailure {
  return new StoreFailure("late", `Redis: no answer in ${Math.round(ms)} ms`, "unknown");
}

/**
 * Rejects if there is no answer within `ms` and one more poll phase. `allMs` is the whole of a time of
 * which that is the rest.
 */
export function withTimeout<T>(answer: Promise<T>, ms: number, allMs = ms): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeoutAfterPoll(ms, () => reject(lateFailure(allMs)));
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Replies that Redis sends instead of executing, and their meaning for people. */
const REFUSALS: Record<string, string> = {
  NOSCRIPT: "it does not know the script",
  MOVED: "the slot is on another node",
  ASK: "the slot is moving to another node",
  TRYAGAIN: "the slot is in motion between two nodes",
  CLUSTERDOWN: "the cluster does not serve this slot",
  LOADING: "it is loading its data",
  READONLY: "it is a read-only replica",
  OOM: "it is out of memory: raise maxmemory",
  MISCONF: "it refuses writes because it cannot save to disk",
  MASTERDOWN: "its master is away",
  NOREPLICAS: "it has too few replicas to accept writes",
  BUSY: "it is busy running a script",
  LATE: "it got to the call too late",
  NEWER:
    "its accounts are of a newer form than this gateway reads: run the version that wrote them, or a later one",
  NOPERM: "the user lacks a permission",
  NOAUTH: "it asks for a password",
  WRONGPASS: "user or password are wrong",
};
/** A Redis whose default user has no password takes none without a user; before 6.0 it takes none. */
const NO_PASSWORD = /without any password configured for the default user|no password is set/;

/** The failure of a command whose keys are on both sides of a slot that is moving. */
export function inMotionFailure(): StoreFailure {
  return new StoreFailure("TRYAGAIN", `Redis: ${REFUSALS.TRYAGAIN}`, "no");
}

/** Whether nothing was done because the keys are on both sides of a slot that is moving. */
export function isInMotion({ code }: StoreFailure): boolean {
  // If ASK is about several keys at once, the other node replies with TRYAGAIN.
  return code === "TRYAGAIN" || code === "ASK";
}

const NO_CONNECTION = "no connection";
const LOST = "the connection was lost";
const CLOSED = "the connection is closed";
const NO_REDIS = "what answers there does not speak the protocol of Redis";
export const ENDED_UNANSWERED =
  "the connection ended before any reply: if it speaks TLS, the address needs rediss in place of redis";
export const NO_TLS =
  "connected, but there is no answer by TLS: if it speaks none, the address needs redis in place of rediss";
/** Why there is no connection to a node of a Cluster, as far as the end of an attempt says it. */
export const NODE_SILENT = "a node of the cluster does not answer";
/** Why a link is not there before its first attempt has ended. */
export const NOT_YET = "not connected yet";

/**
 * The failure of a command. If there was no connection for it, that is told by `why` there is none,
 * where that is known: a certificate, a name or a closed port is what an operator has to mend.
 */
export function toCommandFailure(error: unknown, why: StoreFailure | undefined): StoreFailure {
  const failure = toStoreFailure(error);
  const isUnconnected = [NO_CONNECTION, NODE_SILENT].some((end) => failure.message.endsWith(end));
  if (why === undefined || !isUnconnected) return failure;
  const code = why.code in REFUSALS ? why.code : failure.code;
  return new StoreFailure(code, why.message, failure.executed);
}

/** Whether a failure says that a connection is gone, and not what keeps a new one from being made. */
export function lacksReason({ message }: StoreFailure): boolean {
  return [NO_CONNECTION, LOST, CLOSED].some((why) => message.endsWith(why));
}

/** The error in plain words: ioredis attaches the command's arguments to its errors. */
export function toStoreFailure(error: unknown): StoreFailure {
  if (error instanceof StoreFailure) return error;
  const { name, message, code } = error as Partial<NodeJS.ErrnoException>;
  const text = String(message);
  if (name === "ReplyError") return toReplyFailure(text);
  if (text.startsWith("Stream isn't writeable")) return unreachableFailure(NO_CONNECTION);
  if (text.includes("Connection is closed")) return unreachableFailure(CLOSED, "unknown");
  if (text.includes("max retries per request")) return unreachableFailure(LOST, "unknown");
  if (text === ENDED_UNANSWERED) return unreachableFailure(text, "unknown");
  if (code !== undefined) return unreachableFailure(code, "unknown");
  if (text.startsWith("Unknown RESP type")) return unreachableFailure(NO_REDIS, "unknown");
  // The client library asks to be told of replies that it cannot read, which are no mistake of its own.
  const [said = ""] = text.replace(". Please report this.", "").split("\n", 1);
  return unreachableFailure(said, "unknown");
}

/** The error with which Redis answers, in plain words. */
export function toReplyFailure(text: string): StoreFailure {
  const [word = "ERR"] = text.split(" ", 1);
  const said = `Redis: ${text.replace(/,? with args beginning.*$/s, "")}`;
  // A command that was renamed, or that this server never had, is as good as denied.
  if (/\bunknown (redis )?command\b/i.test(said)) {
    return new StoreFailure("NOPERM", said, text.startsWith("ERR unknown") ? "no" : "unknown");
  }
  if (NO_PASSWORD.test(text)) {
    const why =
      "its default user has no password: take the one of the address out, or name its user";
    return new StoreFailure("WRONGPASS", `Redis: ${why}`, "no");
  }
  // Redis reports the failures of a script behind "ERR": "ERR OOM ...", "ERR NOPERM ...".
  // From 7.2 on, and in Valkey, a right that a script lacks is an "ACL failure".
  const isDenied = /The user executing the script can't|ACL failure in script/.test(text);
  const denied = isDenied ? ["NOPERM"] : [];
  const words = [word, text.split(" ", 2)[1] ?? "", ...denied];
  const known = words.find((each) => each in REFUSALS);
  // Redis may find in the middle of a script that a right is missing, after the script has
  // charged. time.lua has the words of a script that knows that it has not.
  const midway =
    known === "NOPERM" && /\bscript\b/.test(text) && !text.includes(", before any charge");
  if (known === "LATE") {
    const nowMs = Number(text.split(" ", 2)[1]);
    return new StoreFailure(known, `Redis: ${REFUSALS[known]}`, "no", nowMs);
  }
  if (known !== undefined) {
    const more = known === "NOPERM" ? deniedWords(text) : "";
    return new StoreFailure(known, `Redis: ${REFUSALS[known]}${more}`, midway ? "unknown" : "no");
  }
  return new StoreFailure(word, said, "unknown");
}

/** Names the command or the kind of name that the user may not use, if Redis tells it. */
function deniedWords(text: string): string {
  const command = / run the '([\w|-]+)' command/.exec(text)?.[1];
  const [kind] = /\b(?:key|channel)(?=s?\b)/.exec(text) ?? [];
  const what = command ?? (kind && `a ${kind}`);
  const rest = ": docs/operations.md lists those that are needed";
  return what === undefined ? rest : `, for ${what}${rest}`;
}

/** The command that the user may not run, or that Redis has under another name, if the failure names it. */
export function deniedCommand({ message }: StoreFailure): string | undefined {
  const found = /, for ([\w|-]+): | command [`']([\w|-]+)/i.exec(message);
  return (found?.[1] ?? found?.[2])?.toUpperCase();
}

/** The answer, which has to be a list. Throws if it is none, as that of a server that is not Redis. */
export function replyList(reply: unknown): readonly unknown[] {
  if (Array.isArray(reply)) return reply;
  throw unreadableFailure("it is no list");
}

/** The answer, which has to be a number. Throws if it is none. */
export function replyNumber(reply: unknown): number {
  if (Number.isFinite(reply)) return reply as number;
  throw unreadableFailure("it is no number");
}

export function unreadableFailure(why: string): StoreFailure {
  return new StoreFailure("unreadable", `Cannot read the store's answer: ${why}`, "unknown");
}

/** The redirection that a reply asks for: MOVED and ASK name a slot and an address. */
export function redirection(error: unknown): { kind: "MOVED" | "ASK"; at: string } | undefined {
  const text = String((error as Error | undefined)?.message ?? "");
  const found = /^(MOVED|ASK) \d+ (\S*:\d+)$/.exec(text);
  return found === null ? undefined : { kind: found[1] as "MOVED" | "ASK", at: found[2] as string };
}

export function lostFailure(): StoreFailure {
  return unreachableFailure(LOST);
}

/** The failure of a command whose connection is silent. `later`: its reply, if it may still come. */
export function silentFailure(later?: Promise<unknown>): StoreFailure {
  return new StoreFailure("unreachable", lostFailure().message, "unknown", undefined, later);
}

const UNREACHABLE = "Redis cannot be reached: ";

export function unreachableFailure(why: string, executed: "no" | "unknown" = "no"): StoreFailure {
  return new StoreFailure("unreachable", `${UNREACHABLE}${why}`, executed);
}

/** The same failure of something that leads to Redis, such as a Sentinel: why it cannot be reached. */
export function unreachableBy(what: string, { message, executed }: StoreFailure): StoreFailure {
  return unreachableFailure(`${what}: ${message.replace(UNREACHABLE, "")}`, executed);
}
