import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ACCOUNT, KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { sendRequest } from "../support/wire/client.ts";
import { valuesOf } from "../support/wire/response.ts";
import { type Came, judgeAnswers, type Sent, type Wrong } from "./answers.ts";
import type { Case } from "./mutate.ts";
import { openStrictBackend, type StrictBackend } from "./strict-backend.ts";

/** A real gateway in a process of its own, in front of a backend that forgives nothing. */
export type Target = AsyncDisposable & {
  readonly served: SpawnedGateway;
  readonly backend: StrictBackend;
  send(sent: Bytes): Promise<Sent>;
  /** The breaches of the law (docs/reference/http.md#law) since the last call. */
  law(): Promise<Wrong[]>;
};

const LIMITS = { requestTimeout: "1s", headersTimeout: "1s", idleTimeout: "1s" };
/** The answers have come when the connection is quiet this long; without any, our side is ended. */
const QUIET_MS = 30;
const NOTHING_MS = 250;
const GIVEN_UP_MS = 60_000;

/** `settleMs`: how long what was sent may take to be in the log and counted. */
export async function openTarget(settleMs = 3_000): Promise<Target> {
  const backend = await openStrictBackend();
  const served = await spawnGateway({ upstreams: [backend.origin], limits: LIMITS });
  let [linesFrom, seenFrom, problemsFrom] = [0, 0, 0];
  return {
    served,
    backend,
    send: (sent) => send(served.port, sent),
    law: async () => {
      const last = await sendRequest(served.port, { key: KEY }).catch(() => undefined);
      if (last === undefined) return [{ kind: "dead", why: served.running.stderr().slice(-2_000) }];
      const [id] = valuesOf(last, "X-Request-Id");
      await eventually(() => served.lines.some((entry) => entry.id === id));
      const wrong = await eventually(() => holds(served, backend, [linesFrom, seenFrom]), {
        everyMs: 100,
        withinMs: settleMs,
      }).catch(
        (error: Error) => (error.cause as Broken).wrong ?? [{ kind: "law", why: String(error) }],
      );
      wrong.push(...backend.problems.slice(problemsFrom).map((why) => ({ kind: "backend", why })));
      linesFrom = served.lines.length;
      seenFrom = backend.seen.length;
      problemsFrom = backend.problems.length;
      return wrong;
    },
    [Symbol.asyncDispose]: async () => {
      await served[Symbol.asyncDispose]();
      await backend[Symbol.asyncDispose]();
    },
  };
}

class Broken extends Error {
  readonly wrong: Wrong[];
  constructor(wrong: Wrong[]) {
    super(wrong.map(({ why }) => why).join("; "));
    this.wrong = wrong;
  }
}

async function holds(
  served: SpawnedGateway,
  backend: StrictBackend,
  [linesFrom, seenFrom]: readonly [number, number],
): Promise<Wrong[]> {
  const wrong: Wrong[] = [];
  const left = new Map<string, { forwards: number; path: string; method: string }>();
  for (const { id, forwards, path, method, decision } of served.lines.slice(linesFrom)) {
    left.set(id, { forwards, path, method });
    const allowed =
      forwards === 0 || (decision === "admitted" && (forwards === 1 || isRetry(method)));
    if (!allowed)
      wrong.push({ kind: "law", why: `${forwards} forwards, ${decision}`, requestId: id });
  }
  for (const { method, target, fields } of backend.seen.slice(seenFrom)) {
    const values = (name: string) =>
      fields.filter(([is]) => is.toLowerCase() === name).map(([, value]) => value);
    const [requestId = "none", ...others] = values("x-request-id");
    const told = left.get(requestId);
    const why = `${method} ${target} at the backend`;
    if (told === undefined || others.length > 0 || told.forwards === 0) {
      wrong.push({ kind: "smuggled", why: `${why}, of no line in the log`, requestId });
      continue;
    }
    told.forwards -= 1;
    const path = target.split("?")[0] ?? "";
    if (path !== told.path || method !== told.method) {
      wrong.push({
        kind: "confused",
        why: `${why}, ${told.method} ${told.path} logged`,
        requestId,
      });
    }
    const ours = [
      ...values("x-consumer-id"),
      ...values("x-consumer-plan"),
      ...values("authorization"),
    ];
    if (ours.join() !== `${ACCOUNT},vectors` || fields.some(([name]) => name.includes("_"))) {
      wrong.push({ kind: "fields", why: `${why} with ${JSON.stringify(fields)}`, requestId });
    }
  }
  const charged = served.lines.reduce((sum, entry) => sum + entry.charged, 0);
  const counted = await served.counted();
  if (charged !== counted)
    wrong.push({ kind: "law", why: `${charged} charged, ${counted} counted` });
  for (const { level, msg, error } of served.said) {
    if (level === "error") wrong.push({ kind: "error", why: `${msg}: ${error}` });
  }
  if (wrong.length > 0) throw new Broken(wrong);
  return wrong;
}

function isRetry(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

/**
 * Sends over a connection of its own, and judges every byte that comes back. A side that is ended is
 * a client that went away (docs/evidence/attack-matrix.md): it may be left without an answer.
 */
async function send(port: number, one: Bytes): Promise<Sent> {
  const came = await sendBytes(port, one);
  if (came !== undefined) return judgeAnswers({ ...came, sent: Buffer.concat(one.pieces) });
  return { wrong: [{ kind: "dead", why: "no connection" }], statuses: [], requestIds: [] };
}

type Bytes = Pick<Case, "pieces" | "halfClose">;

type Waits = {
  /** Our side is ended when nothing came for so long. */
  readonly nothingMs: number;
  /** Whether what came may be all of it: a pause behind anything else is waited out. */
  readonly mayBeAll: (bytes: Buffer) => boolean;
};

/** Gives what came until the connection ended or was quiet; undefined where there was none. */
export async function sendBytes(
  port: number,
  { pieces, halfClose }: Bytes,
  { nothingMs, mayBeAll }: Waits = { nothingMs: NOTHING_MS, mayBeAll: () => true },
): Promise<Omit<Came, "sent"> | undefined> {
  const chunks: Buffer[] = [];
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  let ended: Came["ended"] = "open";
  let opened = false;
  let heardMs = performance.now();
  const over = new Promise<void>((resolve) => {
    const end = (how: Came["ended"]) => {
      if (ended === "open") ended = how;
      resolve();
    };
    socket.once("end", () => end("closed")).once("close", () => end("closed"));
    socket.once("error", () => end("reset"));
  });
  socket.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    heardMs = performance.now();
  });
  socket.once("connect", () => {
    opened = true;
  });
  for (const [i, piece] of pieces.entries()) {
    if (i > 0) await sleep(1);
    socket.write(piece);
  }
  if (halfClose) socket.end();
  const startMs = performance.now();
  while (ended === "open") {
    await Promise.race([over, sleep(10)]);
    const nowMs = performance.now();
    const quietMs = nowMs - heardMs;
    if (nowMs - startMs > GIVEN_UP_MS) break;
    if (chunks.length > 0 && quietMs > QUIET_MS && mayBeAll(Buffer.concat(chunks))) break;
    if (quietMs > nothingMs && !socket.writableEnded) socket.end();
  }
  const mayBeSilent = socket.writableEnded;
  socket.destroy();
  return opened ? { bytes: Buffer.concat(chunks), ended, mayBeSilent } : undefined;
}
