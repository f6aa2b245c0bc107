import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { type RequestOptions, sendRequest } from "../../support/wire/client.ts";
import { onlyValue, type RawResponse, valuesOf } from "../../support/wire/response.ts";

const PAGE = "https://app.test";
const ORIGIN = "Access-Control-Allow-Origin";

/** A backend with CORS fields of its own, on every answer. */
async function openCorsHouse(
  cors?: Record<string, unknown>,
  more: Record<string, unknown> = {},
): Promise<TestGateway> {
  const backend = await startTestUpstream((_seen, response) => {
    response.writeHead(200, {
      [ORIGIN]: "https://backend.test",
      "Access-Control-Allow-Credentials": "true",
      "Access-Control-Expose-Headers": "X-Backend",
      Vary: "Accept",
    });
    response.end("[]");
  });
  return startTestGateway({
    backend,
    environment: { ...more, ...(cors === undefined ? {} : { cors }) },
    keys: { [KEY]: { limits: [{ window: "minute", limit: 3 }] } },
  });
}

const from = (origin: string): (readonly [string, string])[] => [["Origin", origin]];
const preflight = (origin: string, path = "/v1/pets"): RequestOptions => ({
  method: "OPTIONS",
  path,
  fields: [
    ["Origin", origin],
    ["Access-Control-Request-Method", "GET"],
    ["Access-Control-Request-Headers", "authorization"],
  ],
});

/** Asserts that a page can read the answer and its standing. */
function readable(response: RawResponse): void {
  assert.equal(onlyValue(response, ORIGIN), PAGE);
  const exposed = onlyValue(response, "Access-Control-Expose-Headers").split(", ");
  for (const name of ["X-RateLimit-Remaining", "Retry-After"]) assert.ok(exposed.includes(name));
  onlyValue(response, "X-RateLimit-Remaining");
  assert.match(onlyValue(response, "Vary"), /\bOrigin$/);
}

describe("where cors is configured", () => {
  it("a preflight is answered here, without a key, uncharged, for any path of the environment", async () => {
    await using house = await openCorsHouse({ origins: [PAGE] });
    for (const path of ["/v1/pets", "/v1/pets/1", "/v1/nothing", "/"]) {
      const response = await sendRequest(house.port, preflight(PAGE, path));
      assert.equal(response.status, 204);
      readable(response);
      assert.match(onlyValue(response, "Access-Control-Allow-Methods"), /^GET, HEAD, POST/);
      assert.match(onlyValue(response, "Access-Control-Allow-Headers"), /Authorization/);
      assert.equal(onlyValue(response, "Access-Control-Max-Age"), "600");
    }
    assert.equal(house.backend.seen.length, 0);
    await eventually(() => assert.equal(house.lines.length, 4));
    assert.ok(house.lines.every(({ charged, decision }) => charged === 0 && decision === "none"));
  });

  it("a page of an allowed origin can read every answer: 200, 400, 401, 404, 405, 429", async () => {
    await using house = await openCorsHouse({ origins: [PAGE] });
    const fields = from(PAGE);
    const wanted: readonly (readonly [status: number, wanted: RequestOptions])[] = [
      [400, { path: "/v1//pets", fields }],
      [401, { fields }],
      [401, { key: `${KEY.slice(0, -1)}t`, fields }],
      [200, { key: KEY, fields }],
      [404, { key: KEY, path: "/v1/nothing", fields }],
      [405, { key: KEY, method: "DELETE", fields }],
      [429, { key: KEY, fields }],
      [431, { fields: [...fields, ["X-Long", "x".repeat(17_000)]] }],
    ];
    for (const [status, one] of wanted) {
      const response = await sendRequest(house.port, one);
      assert.equal(response.status, status);
      readable(response);
      const exposed = onlyValue(response, "Access-Control-Expose-Headers")
        .toLowerCase()
        .split(", ");
      const sent = response.fields.map(([name]) => name.toLowerCase());
      const reasons = sent.filter((name) => name === "www-authenticate" || name === "allow");
      assert.deepEqual(
        reasons,
        status === 401 ? ["www-authenticate"] : status === 405 ? ["allow"] : [],
      );
      const hidden = reasons.filter((name) => !exposed.includes(name));
      assert.deepEqual(hidden, []);
    }
    await house.law();
  });

  it("a preflight that its target or address refuses is not 204; a page reads that refusal only without one", async () => {
    await using house = await openCorsHouse({ origins: [PAGE] });
    await using closed = await openCorsHouse({ origins: [PAGE] }, { deny: ["127.0.0.0/8"] });
    for (const [status, path, { port }] of [
      [400, "/v1/a%2fb", house],
      [414, `/v1/pets?q=${"x".repeat(9_000)}`, house],
      [403, "/v1/pets", closed],
    ] as const) {
      assert.equal((await sendRequest(port, preflight(PAGE, path))).status, status);
      const plain = await sendRequest(port, { path, fields: from(PAGE) });
      assert.equal(plain.status, status);
      readable(plain);
    }
  });

  it("the backend's own CORS fields are replaced, and its Vary and ours are one line", async () => {
    await using house = await openCorsHouse({ origins: [PAGE], expose: ["X-Total"] });
    const allowed = await sendRequest(house.port, { key: KEY, fields: from(PAGE) });
    readable(allowed);
    assert.match(onlyValue(allowed, "Access-Control-Expose-Headers"), /X-Total$/);
    assert.deepEqual(valuesOf(allowed, "Access-Control-Allow-Credentials"), []);
    assert.deepEqual(valuesOf(allowed, "Vary"), ["Accept, Origin"]);
    const other = await sendRequest(house.port, { key: KEY, fields: from("https://evil.test") });
    assert.equal(other.status, 200);
    const names = other.fields.map(([name]) => name.toLowerCase());
    assert.deepEqual(
      names.filter((name) => name.startsWith("access-control")),
      [],
    );
    assert.deepEqual(valuesOf(other, "Vary"), ["Accept, Origin"]);
  });

  it("another origin gets no CORS field, preflight or not", async () => {
    await using house = await openCorsHouse({ origins: [PAGE] });
    for (const wanted of [preflight("https://evil.test"), { fields: from("null") }]) {
      const response = await sendRequest(house.port, wanted);
      const names = response.fields.map(([name]) => name.toLowerCase());
      assert.deepEqual(
        names.filter((name) => name.startsWith("access-control")),
        [],
      );
      assert.ok(valuesOf(response, "Vary").includes("Origin"));
    }
  });

  it("an answer without Origin may be read by any page if any may call, and by none if they are named", async () => {
    await using anyone = await openCorsHouse({ origins: ["*"] });
    await using named = await openCorsHouse({ origins: [PAGE] });
    for (const [status, wanted] of [
      [200, { key: KEY }],
      [401, {}],
    ] as const) {
      const answer = await sendRequest(anyone.port, wanted);
      assert.equal(answer.status, status);
      assert.equal(onlyValue(answer, ORIGIN), "*");
      assert.match(onlyValue(answer, "Access-Control-Expose-Headers"), /X-RateLimit-Remaining/);
      const other = await sendRequest(named.port, wanted);
      assert.deepEqual(valuesOf(other, ORIGIN), []);
      assert.match(onlyValue(other, "Vary"), /\bOrigin$/);
    }
  });

  it("two Origin fields are nobody's", async () => {
    await using house = await openCorsHouse({ origins: [PAGE] });
    const fields = [...from(PAGE), ...from(PAGE)];
    assert.deepEqual(valuesOf(await sendRequest(house.port, { fields }), ORIGIN), []);
  });

  it("an OPTIONS that is no preflight needs a key, as ever", async () => {
    await using house = await openCorsHouse({ origins: [PAGE] });
    const response = await sendRequest(house.port, { method: "OPTIONS", fields: from(PAGE) });
    assert.equal(response.status, 401);
    readable(response);
  });
});

describe("where cors is not configured", () => {
  it("the backend's CORS fields pass, and a preflight needs a key", async () => {
    await using house = await openCorsHouse();
    const response = await sendRequest(house.port, { key: KEY, fields: from(PAGE) });
    assert.equal(onlyValue(response, ORIGIN), "https://backend.test");
    assert.equal(onlyValue(response, "Access-Control-Expose-Headers"), "X-Backend");
    assert.equal((await sendRequest(house.port, preflight(PAGE))).status, 401);
  });
});
