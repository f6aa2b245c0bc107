import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, test } from "vitest";
import type { RecordedRequest } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { errorOf, openClient, sendRequest } from "../support/wire/client.ts";
import { parseResponses, type RawResponse } from "../support/wire/response.ts";
import { type SmugglingVector, smugglingVectors } from "../support/wire/vectors.ts";

const KEY = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
const ACCOUNT = "vectors";
/**
 * The one whose head is fit to be forwarded, and whose body is not at fault before it is too long:
 * bodies are streamed (docs/reference/edge.md#streaming), so the backend sees the head of a request that is
 * never complete. A chunk that announces 4 GiB is waited for until the request takes too long.
 */
const STREAMED = "chunk-overflow32";
/** An unknown method is 501, whatever follows it (docs/reference/edge.md#versions-and-methods). */
const UNKNOWN_METHOD = "rl-h2-preface";
const limits = { requestTimeout: "1s", headersTimeout: "1s" };
const house = await startTestGateway({
  keys: { [KEY]: { plan: "business", id: ACCOUNT } },
  environment: { limits },
  config: { unauthenticated: { minute: 10_000 } },
});
afterAll(() => house[Symbol.asyncDispose]());

for (const vector of smugglingVectors()) {
  test(`${vector.name}: ${vector.why}`, async () => {
    const from = house.backend.seen.length;
    const lines = house.lines.length;
    const responses = await send(vector);
    const seen = house.backend.seen.slice(from);

    const [first] = responses;
    const status = first?.status ?? 0;
    const allowed = vector.name === UNKNOWN_METHOD ? [501] : vector.status;
    assert.ok(allowed.includes(status), `${status}, not any of ${allowed}`);
    const whole = seen.filter(({ complete }) => complete).length;
    assert.ok(whole <= vector.backend_max, `${whole} whole requests at the backend`);
    if (vector.name !== STREAMED) assert.ok(seen.length <= vector.backend_max);
    if (vector.expect === "reject" && status >= 400) errorOf(first as RawResponse);
    if (vector.expect === "forward") assert.equal(seen.length, vector.backend_max);
    for (const answer of responses.slice(1)) {
      assert.ok([...vector.status, 400].includes(answer.status), `then ${answer.status}`);
      assert.ok(vector.expect === "forward" || answer.status >= 400, "no second success");
    }
    for (const record of seen) assertClean(vector, record);

    const good = await sendRequest(house.port, { key: KEY });
    assert.equal(good.status, 200, "the gateway goes on serving");
    assert.ok(house.lines.length > lines);
  });
}

test("the law holds after all of them", async () => {
  await house.law({ connectionsFailed: true });
  const complete = house.backend.seen.filter((record) => record.complete).length;
  const forwards = house.lines.reduce((sum, entry) => sum + entry.forwards, 0);
  assert.ok(complete <= forwards, `${complete} complete requests, ${forwards} forwarded`);
  assert.deepEqual(
    house.said.filter(({ level }) => level === "error"),
    [],
  );
});

/** All final responses to the bytes: until the gateway closes, or has answered and says no more. */
async function send({ name, bytes }: SmugglingVector): Promise<readonly RawResponse[]> {
  await using client = await openClient(house.port);
  client.write(bytes);
  if (name === "chunk-truncated") client.socket.end();
  for (let quietMs = 0, length = -1; client.open() && quietMs < 80; ) {
    await sleep(10);
    const parsed = parseResponses(client.waiting(), { methods: Array(9).fill("GET") });
    const moved = client.waiting().length !== length || parsed.responses.length === 0;
    quietMs = moved ? 0 : quietMs + 10;
    length = client.waiting().length;
  }
  const { responses, problem } = parseResponses(client.waiting(), { closed: !client.open() });
  assert.equal(problem, undefined);
  return responses;
}

const ONCE: Readonly<Record<string, string>> = {
  "x-consumer-id": ACCOUNT,
  "x-consumer-plan": "business",
  "x-forwarded-for": "127.0.0.1",
  "x-forwarded-host": "gw.test",
  "x-forwarded-proto": "http",
  via: "1.1 tollgate",
};
const NEVER = [
  ...["authorization", "proxy-authorization", "upgrade", "http2-settings", "te", "expect"],
  ...["x-real-ip", "forwarded", "x-original-url", "x-rewrite-url", "x-http-method-override"],
  ...["x-ratelimit-limit", "trailer", "keep-alive"],
];

/**
 * A request that reached the backend carries our fields, none that a client may not set, and one
 * framing.
 */
function assertClean(
  { name }: SmugglingVector,
  { rawHeaders, target, body }: RecordedRequest,
): void {
  const values = (wanted: string) =>
    rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === wanted);
  for (const [field, value] of Object.entries(ONCE)) assert.deepEqual(values(field), [value]);
  assert.match(values("x-request-id").join(), /^[0-9a-f-]{36}$/);
  for (const field of NEVER) assert.deepEqual(values(field), [], field);
  const names = rawHeaders.filter((_, i) => i % 2 === 0);
  assert.deepEqual(
    names.filter((field) => field.includes("_")),
    [],
  );
  assert.ok(values("content-length").length + values("transfer-encoding").length <= 1);
  assert.ok(!/smuggled/.test(body.toString()));
  if (name !== "cl-short-then-smuggle") assert.equal(target, "/v1/pets");
  if (name === "cl-ows") assert.deepEqual(values("content-length"), ["27"]);
}
