import fc from "fast-check";
import { theirResponse } from "../http1/llhttp.ts";
import { responseBytes } from "../http1/messages.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { parseResponses, type RawResponse } from "../support/wire/response.ts";
import { judgeAnswers } from "./answers.ts";
import {
  type HostileAnswer,
  type HostileBackend,
  openHostileBackend,
  probeBody,
} from "./hostile-backend.ts";
import { diceOf } from "./random.ts";
import { sendBytes } from "./target.ts";

export type ResponseFuzzOptions = {
  readonly cases: number;
  readonly seed: number;
  readonly lanes?: number;
  readonly onBatch?: (done: number, findings: number) => void;
};

export type ResponseFinding = {
  readonly kind: string;
  readonly why: string;
  /** The number of the case; none where the law is broken over all of them. */
  readonly cases: string;
  /** The answer of the backend. */
  readonly bytes: Buffer;
};

export type ResponsesFuzzed = {
  readonly findings: readonly ResponseFinding[];
  readonly statuses: ReadonlyMap<number, number>;
};

/** A backend that leaves an answer half said must not hold up the rest for long. */
const LIMITS = { responseTimeout: "400ms", idleTimeout: "400ms" };
const BATCH = 200;

/**
 * Lets a backend answer with so many whole and broken responses through one gateway. Each client
 * gets HTTP, and a whole answer only where llhttp reads the same whole answer in the backend's bytes;
 * the next request is never answered by bytes of an earlier one; and the law holds
 * (docs/reference/http.md#law).
 */
export async function fuzzResponses(options: ResponseFuzzOptions): Promise<ResponsesFuzzed> {
  const { cases, seed, lanes = 16, onBatch } = options;
  const answers = answersOf(cases, seed);
  await using backend = await openHostileBackend((number) => answers[number] as HostileAnswer);
  await using served = await spawnGateway({ upstreams: [backend.origin], limits: LIMITS });
  const findings: ResponseFinding[] = [];
  const statuses = new Map<number, number>();
  let next = 0;
  const lane = async () => {
    while (next < cases) {
      const number = next++;
      const { bytes } = answers[number] as HostileAnswer;
      const wrong = await tryCase(served, number, bytes, statuses);
      findings.push(...wrong.map((one) => ({ ...one, cases: String(number), bytes })));
      if (number % BATCH === BATCH - 1) onBatch?.(number + 1, findings.length);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  const broken = await law(served, backend);
  findings.push(
    ...broken.map((why) => ({ kind: "law", why, cases: "all", bytes: Buffer.alloc(0) })),
  );
  return { findings, statuses };
}

function answersOf(cases: number, seed: number): HostileAnswer[] {
  return fc.sample(responseBytes, { seed, numRuns: cases }).map((bytes, number) => {
    const dice = diceOf(seed, number);
    const after = dice.one(["keep", "end", "end", "end", "end", "reset"] as const);
    return { bytes, after };
  });
}

type Wrong = Pick<ResponseFinding, "kind" | "why">;

async function tryCase(
  served: SpawnedGateway,
  number: number,
  bytes: Buffer,
  statuses: Map<number, number>,
): Promise<Wrong[]> {
  const came = await ask(served, `case=${number}`);
  const [first] = came.responses;
  const wrong = [...came.wrong];
  if (first !== undefined) {
    statuses.set(first.status, (statuses.get(first.status) ?? 0) + 1);
    if (came.responses.length > 1) wrong.push({ kind: "split", why: "more than one answer" });
    if (isTheirs(first) && came.isWhole) wrong.push(...(await compare(first, bytes)));
  }
  const probe = await ask(served, `probe=${number}`);
  const [answer] = probe.responses;
  const isGood = answer?.status === 200 && answer.body.toString() === probeBody(number);
  // A backend that ended its connection as the request went out has answered nobody.
  const isRefused = answer?.status === 502 || answer?.status === 504;
  if (!isGood && !isRefused) {
    wrong.push({
      kind: "poisoned",
      why: `a good answer came as ${answer?.status} ${answer?.body}`,
    });
  }
  return wrong;
}

/** The answer came from the backend: one of ours has an Error for its body. */
function isTheirs({ status, body }: RawResponse): boolean {
  return !((status === 502 || status === 504) && /^\{"code":"upstream_/.test(body.toString()));
}

/** An answer that the client takes for whole is the one that llhttp reads, and whole for it too. */
async function compare({ status, body, framing }: RawResponse, bytes: Buffer): Promise<Wrong[]> {
  const theirs = await theirResponse("GET", bytes);
  if (theirs.head?.status !== status) {
    return [{ kind: "other", why: `${status}, where llhttp reads ${theirs.head?.status}` }];
  }
  if (framing === "none") return [];
  if (theirs.body === body.toString("latin1")) return [];
  return [{ kind: "other", why: `${body.length} bytes, where llhttp reads ${theirs.body.length}` }];
}

async function ask({ port }: SpawnedGateway, query: string) {
  const head = `GET /v1/pets?${query} HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${KEY}\r\n\r\n`;
  const sent = Buffer.from(head);
  const came = await sendBytes(port, { pieces: [sent], halfClose: false }, WAITS);
  if (came === undefined) {
    return { wrong: [{ kind: "dead", why: "no connection" }], responses: [], isWhole: false };
  }
  const { wrong } = judgeAnswers({ ...came, sent });
  const { responses, problem } = parseResponses(came.bytes, { closed: came.ended !== "open" });
  // A backend's failure is what is tried here, and one that breaks off takes the client along.
  const isTried = ({ kind, why }: Wrong) => {
    return /^\d|^not an Error/.test(kind) || (kind === "not HTTP" && why.startsWith("closed"));
  };
  const others = wrong.filter((one) => !isTried(one));
  return { wrong: others, responses, isWhole: problem === undefined && came.ended !== "reset" };
}

/** The gateway answers, or hangs up: a machine that stands still for seconds must not end this side. */
const WAITS = {
  nothingMs: 30_000,
  mayBeAll: (bytes: Buffer) => {
    const { responses, problem } = parseResponses(bytes, { closed: false });
    return problem !== undefined || responses.length > 0;
  },
} as const;

/** The backend saw as many requests as were forwarded, and as many are counted as were charged. */
async function law(served: SpawnedGateway, backend: HostileBackend): Promise<string[]> {
  const sum = (of: "forwards" | "charged") => {
    return served.lines.reduce((all, entry) => all + entry[of], 0);
  };
  const broken = async () => {
    const found: string[] = [];
    // A request may go out on a connection that its backend has just ended: then nobody sees it.
    const unseen = served.lines.filter(
      ({ forwards, code }) => forwards === 2 || code !== undefined,
    );
    const forwarded = sum("forwards");
    if (backend.seen() > forwarded || backend.seen() < forwarded - unseen.length) {
      found.push(`${forwarded} forwarded, ${backend.seen()} seen`);
    }
    const counted = await served.counted();
    if (sum("charged") !== counted) found.push(`${sum("charged")} charged, ${counted} counted`);
    for (const { level, msg, error } of served.said) {
      // That a backend fails is an event, and true.
      if (level === "error" && msg !== "event") found.push(`${msg}: ${error}`);
    }
    return found;
  };
  const isSettled = async () => {
    if ((await broken()).length > 0) throw new Error("not yet");
  };
  await eventually(isSettled, { withinMs: 5_000, everyMs: 100 }).catch(() => undefined);
  return broken();
}
