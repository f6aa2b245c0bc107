import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, vi } from "vitest";
import type { ProveOptions } from "../../../src/cli/prove/judge/proof-report.ts";
import { runProof } from "../../../src/cli/prove/proof.ts";
import { parseStoreAddress } from "../../../src/config/schema/addresses.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openFolder } from "../kit.ts";
import { PROOF_MS_MAX } from "../prove-kit.ts";

/** Pets that know nothing, and a gateway that counts one window of each plan and charges a day. */
const PROGRAM = `
const { appendFileSync, readFileSync } = require("node:fs");
const { createServer, get } = require("node:http");
const [, , verb, , file] = process.argv;
const serve = (answer) => new Promise((resolve) => {
  const server = createServer(answer).listen(0, "127.0.0.1", () => {
    resolve("http://127.0.0.1:" + server.address().port);
  });
});
if (verb === "pets") {
  process.on("disconnect", () => process.exit(0));
  serve((_, response) => response.end("[]")).then((listening) => process.send({ listening }));
} else gateway(JSON.parse(readFileSync(file, "utf8")));

function gateway({ stateFile, environments: { proof: { upstreams: [upstream] } } }) {
  const isFirst = stateFile.includes("-0.");
  const { ban, lies, aheadMs = 0, seen } = JSON.parse(process.env.PROOF_STUB);
  const WINDOWS = { brisk: ["second", 1e3, 10], steady: ["minute", 6e4, 20], polite: ["second", 1e3, 3] };
  const now = () => Date.now() + aheadMs;
  const say = (line) => console.log(JSON.stringify({ time: Date.now(), ...line }));
  const [charged, used] = [new Map(), new Map()];
  const add = (map, name, units) => map.set(name, (map.get(name) ?? 0) + units);
  let [polls, asked, admitted, refused, enoughMs] = [0, 0, 0, 0, 0];
  let toldFree = () => {};
  const free = isFirst || new Promise((resolve) => {
    toldFree = () => {
      appendFileSync(seen, "charged\\n");
      resolve();
    };
  });
  const decide = (account, operation) => {
    const cost = operation === "dear" ? 4 : 1;
    const [plan] = account.split("-");
    const [window, lengthMs, limit] = isFirst ? WINDOWS[plan] : ["hour", 36e5, 5_000];
    const resetMs = (Math.floor(now() / lengthMs) + 1) * lengthMs;
    const name = account + " " + resetMs;
    const isOver = (used.get(name) ?? 0) + cost > limit || (lies && account === "brisk-0" && asked % 2 === 0);
    if (isOver) refused += 1;
    else {
      admitted += cost;
      add(used, name, cost);
      add(charged, account, cost);
    }
    const fields = { window, limit, remaining: limit - (used.get(name) ?? 0), reset: resetMs / 1e3, cost };
    return { status: isOver ? 429 : 200, resetMs, fields: isOver && lies ? { ...fields, remaining: 0 } : fields };
  };
  const api = (request, response) => {
    const account = request.headers.authorization.slice(7);
    const operation = request.url.split("/").at(-1);
    asked += 1;
    if (!isFirst && (polls < 9 || admitted > 0 || operation !== "dear" || !account.startsWith("steady"))) {
      return response.writeHead(503, { "Retry-After": "1" }).end("{}");
    }
    if (lies && asked === 1) {
      say({ msg: "event", kind: "store_away" });
      say({ msg: "charges_uncertain", accounts: "proof:brisk-0 1000000" });
      say({ msg: "settlement_lost", account: "brisk-0", units: -9 });
    }
    if (enoughMs === 0 && admitted > 150 && refused > 150) enoughMs = Date.now();
    if (lies && enoughMs > 0 && Date.now() > enoughMs + 700) {
      enoughMs = Number.POSITIVE_INFINITY;
      return response.writeHead(418).end(() => say({ msg: "event", kind: "store_back" }));
    }
    const isBanned = ban > 0 && account.startsWith("polite");
    const { status, resetMs, fields } = isBanned ? { status: 429, resetMs: now() + ban * 1e3 } : decide(account, operation);
    const told = isBanned ? { window: "ban", limit: 3, remaining: 0, reset: Math.ceil(resetMs / 1e3) } : fields;
    const head = Object.entries(told).map(([name, value]) => ["X-RateLimit-" + name, value]);
    if (status === 429) head.push(["Retry-After", Math.max(1, Math.ceil((resetMs - now()) / 1e3))]);
    const end = () => response.writeHead(status, Object.fromEntries(head)).end("[]", toldFree);
    if (isBanned && seen !== undefined) appendFileSync(seen, "banned\\n");
    if (isFirst) return end();
    get(upstream + request.url, { headers: { "X-Consumer-Id": account, "X-Request-Id": String(asked) } }, (answer) => {
      answer.resume().on("end", end);
    });
  };
  const adminApi = async (request, response) => {
    const [, , what, id] = request.url.split("/");
    if (request.method === "POST") {
      let body = "";
      for await (const piece of request) body += piece;
      const { plan, count } = JSON.parse(body);
      return response.end(JSON.stringify(Array.from({ length: count }, (_, i) => ({ account: plan + "-" + i, key: plan + "-" + i }))));
    }
    const more = (account) => (lies && account === "brisk-0" ? 7 : 0);
    if (what?.startsWith("history")) {
      const rows = [...charged].map(([account, units]) => ({ account, units: units + more(account), meters: { tokens: more(account) && 9 } }));
      return response.end(JSON.stringify(rows));
    }
    if (what === "usage") {
      return response.end(JSON.stringify({ windows: [{ window: "day", used: (charged.get(id) ?? 0) + more(id) }] }));
    }
    polls += 1;
    // Two look beside each other: neither of them is told that nothing is owed before.
    if (polls >= 9 && !isFirst) await free;
    response.end("tollgate_charges_owed " + (isFirst || polls >= 9 ? 0 : 5) + "\\n");
  };
  Promise.all([serve(api), serve(adminApi)]).then(([url, admin]) => say({ msg: "serving", urls: { proof: url }, admin }));
}
`;

/** A proof of this program in place of the gateways, which behave as \`stub\` says. */
async function proofOf(stub: object, options: Partial<ProveOptions> = {}) {
  await using folder = await openFolder();
  const [program, seen] = [join(folder.path, "program.cjs"), join(folder.path, "seen.txt")];
  await writeFile(program, PROGRAM);
  await writeFile(seen, "");
  vi.stubEnv("PROOF_STUB", JSON.stringify({ ...stub, seen }));
  try {
    const told = await runProof({
      ...{ gateways: 1, seconds: 0, redis: undefined, fault: undefined, tell: () => {} },
      ...{ self: [process.execPath, program], signal: new AbortController().signal, ...options },
    });
    return { told, seen: await readFile(seen, "utf8"), text: JSON.stringify(told, null, 1) };
  } finally {
    vi.unstubAllEnvs();
  }
}

describe("a proof", { timeout: PROOF_MS_MAX }, () => {
  it("learns from the lines of a gateway what may differ, and loads it until its store is back", async () => {
    vi.stubEnv("PATH", "/nowhere");
    const { told, text } = await proofOf({ ban: 1, lies: true });
    assert.deepEqual([told.uncertain, told.chargesDoubled, told.historyDoubled], [7, 0, 0], text);
    assert.equal(told.metersOff, 0, text);
    assert.ok(told.bannedRefusals > 0, text);
    assert.equal(told.falseRefusals, told.bannedRefusals, "the bans of clients that had waited");
    assert.equal(told.otherAnswers, 1, "that of the request by which the store came back");
    assert.equal(told.away.length, 1, text);
  });

  it("kills a gateway once it owes nothing, and excuses what it did since, by the clock of its Redis", async () => {
    const redis = await startRedis();
    try {
      const address = parseStoreAddress(redis.url);
      assert.ok("value" in address && address.value.kind !== "memory");
      const options = { gateways: 2, redis: address.value };
      const { told, seen, text } = await proofOf({ ban: 0, aheadMs: 7_000 }, options);
      assert.deepEqual([told.gatewaysKilled, seen], [1, "charged\n"], text);
      assert.deepEqual([told.chargesLost, told.historyLost, told.metersOff], [0, 0, 0], text);
      assert.deepEqual([told.killLost, told.forwarded], [4, 1], text);
      assert.deepEqual([told.untrueHeaders, told.falseRefusals], [0, 0], text);
    } finally {
      await redis.close();
    }
  });

  it("that is stopped does not wait for clients that wait as they were told", async () => {
    vi.stubEnv("PATH", "/nowhere");
    const stopping = new AbortController();
    const startMs = performance.now();
    const stop = (text: string) => {
      if (text === "Loading") setTimeout(() => stopping.abort(new Error("Stopped")), 500);
    };
    const options = { seconds: 60, tell: stop, signal: stopping.signal };
    await assert.rejects(proofOf({ ban: 50 }, options), { message: "Stopped" });
    const tookMs = performance.now() - startMs;
    assert.ok(tookMs < 40_000, `${tookMs} ms`);
  });
});
