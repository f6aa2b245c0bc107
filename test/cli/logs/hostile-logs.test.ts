import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { freePort } from "../../support/redis/redis.ts";
import { runVerb } from "../kit.ts";

const REQUEST = {
  ...{ level: "info", time: 1_790_000_000_000, id: "r1", env: "production", account: "a_1" },
  ...{ key: "k_1", plan: "free", method: "GET", route: "/v1/pets", path: "/v1/pets", status: 429 },
  ...{ code: "rate_limited", source: "gateway", decision: "refused", charged: 0, forwards: 0 },
  ...{ durationMs: 2, client: "127.0.0.1", decidedAt: 1_790_000_000_000, cost: 1, strikes: 0 },
  ...{ config: "12345678", windows: [["minute", 60, 60, 1_790_000_040]], by: "memory" },
  ...{ why: "x", msg: "request" },
};
const BAN = {
  ...{ level: "warn", time: 1_790_000_000_000, msg: "event", kind: "ban", env: "production" },
  ...{ account: "a_1", window: "minute", until: 1_790_000_100, offences: 1 },
  ...{ decidedAt: 1_790_000_000_000, strikes: [1_790_000_000], reason: "x", imposed: true },
};
const OTHERS = [
  { msg: "account_reset", env: "production", account: "a_1", windows: [{ window: "m", units: 1 }] },
  { msg: "charges_uncertain", store: "s", units: 1, accounts: [{ account: "a_1", units: 1 }] },
  { msg: "charges_lost", units: 1 },
  { msg: "event", kind: "store_away", gateway: "g" },
  { msg: "serving" },
].map((line) => ({ level: "info", time: 1_790_000_000_000, ...line }));

const ODD: readonly unknown[] = [
  null,
  true,
  -1,
  0.5,
  1e300,
  9e15,
  "",
  "\u001b[2J\u0007\u009b31m\u202e\n\r\tevil",
  [],
  [null],
  [[]],
  [[null, null, null, null]],
  [["\u001b[31mminute", 60, 60, 9e14]],
  {},
  { a: null },
  "__proto__",
];
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROLS = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]/;

const ENDED =
  /TypeError|RangeError|Invalid time|Cannot read prop|not a function|is not iterable|not iterable/;

/** The line, and the line with each of its members replaced by each odd value. */
function* variants(line: object): Generator<object> {
  yield line;
  for (const name of Object.keys(line)) {
    for (const odd of ODD) yield { ...line, [name]: odd };
    yield { ...line, [name]: undefined };
  }
}

describe("Lines of a log that no gateway wrote", () => {
  let directory: string;
  let log: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "tollgate-logs-"));
    log = join(directory, "hostile.log");
    const lines = [REQUEST, BAN, ...OTHERS].flatMap((line) => [...variants(line)]);
    await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  const verbs: readonly (readonly string[])[] = [
    ["explain", "r1", "--log"],
    ["bans", "why", "a_1", "--log"],
    ["plans", "try", "CONFIG", "--log"],
    ["audit", "--log"],
  ];
  for (const words of verbs) {
    it(`end no command and move no cursor: ${words.join(" ")}`, async () => {
      const admin = { listen: `127.0.0.1:${await freePort()}` };
      await using house = await startTestGateway({ config: { admin } });
      const argv = words.map((word) => (word === "CONFIG" ? house.file : word));
      const said = await runVerb([...argv, log, "--config", house.file]);
      const all = `${said.out}${said.err}`;
      assert.doesNotMatch(all, ENDED);
      assert.ok([0, 1].includes(said.status), `${said.status}: ${all.slice(0, 400)}`);
      assert.doesNotMatch(all, CONTROLS);
    });
  }

  it("are explained one by one, or not, without either", async () => {
    const one = join(directory, "one.log");
    await writeFile(one, `${JSON.stringify(REQUEST)}\n`);
    const whole = await runVerb(["explain", "r1", "--log", one]);
    const decided = "decided 2026-09-21 14:13:20Z (memory)";
    const first = `429 rate_limited  GET /v1/pets of account a_1, plan free, ${decided}\n`;
    assert.ok(whole.out.startsWith(first), whole.out);
    for (const line of variants(REQUEST)) {
      const text = JSON.stringify(line);
      await writeFile(one, `${text}\n`);
      const said = await runVerb(["explain", "r1", "--log", one]);
      assert.doesNotMatch(`${said.out}${said.err}`, CONTROLS, text);
      assert.doesNotMatch(said.err, ENDED, text);
    }
  });
});
