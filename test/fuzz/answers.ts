import {
  type Parsed,
  parseResponses,
  type RawResponse,
  valuesOf,
} from "../support/wire/response.ts";

export type Came = {
  readonly bytes: Buffer;
  readonly ended: "open" | "closed" | "reset";
  readonly sent: Buffer;
  /** The client has ended its side, and gets an answer only where one was on its way. */
  readonly mayBeSilent: boolean;
};

/** Every byte that came must be HTTP, every refusal an Error, and no failure our own. */
export function judgeAnswers({ bytes, ended, sent, mayBeSilent }: Came): Sent {
  const closed = ended !== "open";
  const { responses, problem } = parseAny(bytes, closed);
  const wrong: Wrong[] = [];
  const cut = (ended === "reset" || mayBeSilent) && /^closed/.test(problem ?? "");
  if (problem !== undefined && !cut) wrong.push({ kind: "not HTTP", why: problem });
  for (const response of responses) wrong.push(...judgeOne(response));
  // Open behind a 100, the rest is still awaited.
  const isAwaited = mayBeSilent || (bytes.length > 0 && ended === "open");
  const isSilent = responses.length === 0 && problem === undefined && !isAwaited;
  // "PRI *" without a version is HTTP/2 to the parser, which hangs up by itself.
  if (isSilent && !/^[\r\n]*(?:PRI |$)/.test(sent.toString("latin1"))) {
    wrong.push({ kind: "silent", why: `no answer, ${ended}` });
  }
  return {
    wrong,
    statuses: responses.map(({ status }) => status),
    requestIds: responses.flatMap((response) => valuesOf(response, "X-Request-Id")),
  };
}

function judgeOne(response: RawResponse): Wrong[] {
  const { status, body, framing } = response;
  const wrong: Wrong[] = [];
  const [requestId] = valuesOf(response, "X-Request-Id");
  const also = requestId === undefined ? {} : { requestId };
  if (status === 500 || status === 502 || status === 504) {
    wrong.push({ kind: `${status}`, why: body.toString(), ...also });
  }
  const rates = ["Limit", "Remaining", "Reset"].map((name) => {
    return valuesOf(response, `X-RateLimit-${name}`).length;
  });
  const expected = requestId === undefined ? "0,0,0" : "1,1,1";
  if (rates.join() !== expected)
    wrong.push({ kind: "rate fields", why: `${status}: ${rates}`, ...also });
  if (status >= 400 && framing === "length") {
    if (statusIn(body) !== status)
      wrong.push({ kind: "not an Error", why: `${status}: ${body}`, ...also });
  }
  return wrong;
}

/** The status that an Error tells; undefined where the body is none. */
function statusIn(body: Buffer): unknown {
  try {
    return (JSON.parse(body.toString()) as { status?: unknown } | null)?.status;
  } catch {
    return undefined;
  }
}

/** Which of the requests were HEAD, the gateway alone knows: the reading that leaves least is right. */
function parseAny(bytes: Buffer, closed: boolean): Parsed {
  let best = parseResponses(bytes, { closed });
  for (let heads = 1; heads < 16 && (best.problem !== undefined || best.rest.length > 0); heads++) {
    const methods = [1, 2, 4, 8].map((bit) => ((heads & bit) > 0 ? "HEAD" : "GET"));
    const parsed = parseResponses(bytes, { closed, methods });
    if (parsed.problem !== undefined) continue;
    if (best.problem !== undefined || parsed.rest.length < best.rest.length) best = parsed;
  }
  return best;
}

/** `kind` groups what is the same mistake; `why` has the particulars. */
export type Wrong = { readonly kind: string; readonly why: string; readonly requestId?: string };

export type Sent = {
  readonly wrong: readonly Wrong[];
  readonly statuses: readonly number[];
  readonly requestIds: readonly string[];
};
