import assert from "node:assert/strict";
import { test } from "vitest";
import { fuzz } from "./fuzz.ts";
import { caseOf } from "./mutate.ts";
import { fuzzResponses } from "./responses.ts";
import { openTarget } from "./target.ts";

/** More, and other seeds: npm run fuzz. */
const CASES = 2_000;
const SEED = 20_301_205;

test(`${CASES} mutations of the vectors: it lives, answers in HTTP, and the law holds`, async (t) => {
  const { findings, statuses, forwarded } = await fuzz({ cases: CASES, seed: SEED });
  t.annotate(`cases ${CASES}, seed ${SEED}, findings ${findings.length}`);
  const told = findings.map(({ bytes, ...finding }) => ({
    ...finding,
    bytes: bytes?.toString("base64"),
  }));
  assert.deepEqual(told, []);
  for (const status of [200, 400, 401, 501])
    assert.ok((statuses.get(status) ?? 0) > 5, `${status}`);
  assert.ok(forwarded > 100, `only ${forwarded} reached the backend`);
});

const RESPONSES = 300;

test(`${RESPONSES} answers of a hostile backend: clients get HTTP, and nobody another's`, async (t) => {
  const { findings, statuses } = await fuzzResponses({ cases: RESPONSES, seed: SEED });
  t.annotate(`cases ${RESPONSES}, seed ${SEED}, findings ${findings.length}`);
  const told = findings.map(({ bytes, ...finding }) => ({ ...finding, bytes: `${bytes}` }));
  assert.deepEqual(told, []);
  for (const status of [200, 204, 404, 502]) {
    assert.ok((statuses.get(status) ?? 0) > 5, `${status}: ${[...statuses]}`);
  }
});

test("a case is the same for the same seed and number, and another for others", () => {
  const text = (seed: number, number: number) =>
    Buffer.concat(caseOf(seed, number).pieces).toString("hex");
  assert.equal(text(1, 2), text(1, 2));
  assert.notEqual(text(1, 2), text(1, 3));
  assert.notEqual(text(1, 2), text(2, 2));
});

test("a request at the backend that no line tells of is a finding, and so is a bad byte", async () => {
  await using target = await openTarget(300);
  const request = "GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n";
  await fetch(`${target.backend.origin}/v1/pets`);
  assert.deepEqual(
    (await target.law()).map(({ kind }) => kind),
    ["smuggled"],
  );
  await fetch(target.backend.origin, { method: "POST", body: "a", headers: { b: "c" } });
  const socket = await import("node:net").then(({ connect }) => connect(target.backend.port));
  socket.on("error", () => {}).end(request.replace("\r\n", "\n"));
  await new Promise((resolve) => socket.once("close", resolve));
  const kinds = (await target.law()).map(({ kind }) => kind);
  assert.deepEqual(kinds, ["smuggled", "backend"]);
  assert.deepEqual(await target.law(), []);
});
