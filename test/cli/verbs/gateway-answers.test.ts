import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, it, vi } from "vitest";
import type { Explanation } from "../../../src/core/quota/explain.ts";
import type { GatewayReport } from "../../../src/telemetry/gateway-status.ts";
import { openAdmin, send } from "../access/admin-server.ts";
import {
  configText,
  type Folder,
  jsonOf,
  openFolder,
  type RunVerbOptions,
  runVerb,
  type Settings,
} from "../kit.ts";

const NOON_S = Date.UTC(2026, 6, 15, 12) / 1_000;
const HASH = "0123456789abcdef".repeat(4);
const PRODUCTION = { listen: "127.0.0.1:1", keyTag: "live", upstreams: ["http://127.0.0.1:1"] };
const RUNNING = {
  environments: { production: PRODUCTION },
  plans: { free: { minute: 60 } },
  hash: HASH,
};

/** The answers of a gateway by path, without its query: a body, or a status and a body, or either later. */
type Answers = Readonly<Record<string, unknown>>;

let folder: Folder;
let file: string;
beforeEach(async () => {
  folder = await openFolder();
  file = join(folder.path, "tollgate.yaml");
});
afterEach(() => folder[Symbol.asyncDispose]());

function openGateway(answers: Answers) {
  return openAdmin(async (response, { asked }) => {
    const path = new URL(asked.split(" ")[1] ?? "", "http://x").pathname;
    const answer = (await answers[path]) ?? [
      404,
      { code: "not_found", message: "There is nothing here" },
    ];
    if (Array.isArray(answer) && typeof answer[0] === "number")
      send(response, answer[0], answer[1]);
    else send(response, 200, answer);
  });
}

/** Runs a verb while the gateway of its file answers so. */
async function says(
  args: readonly string[],
  answers: Answers,
  { more = "", store, ...options }: RunVerbOptions & Pick<Settings, "more" | "store"> = {},
) {
  await using gateway = await openGateway({ "/api/config": RUNNING, ...answers });
  await writeFile(file, configText({ admin: gateway.port, more, ...(store && { store }) }));
  const said = await runVerb([...args, "--config", file], options);
  return { ...said, err: said.err.replaceAll(gateway.origin, "AT") };
}

describe("status tells", () => {
  const OK = { ok: true };
  const checks = { config: OK, store: { ok: false, why: "it is late" }, keys: OK };
  const notReady = { "/readyz": [503, { status: "not ready", checks }] };

  it("which check fails and why, the whole hash as JSON, and what the file was not reloaded for", async () => {
    const said = await says(["status"], notReady);
    const text = `Tollgate is not ready
  config     ok
  store      FAILS  it is late
  keys       ok
  in force   01234567  not the file as it is now
`;
    assert.deepEqual([said.status, said.out, said.err], [1, text, ""]);
    const broken = await says(["status", "--json"], notReady, { more: "bogus: 1\n" });
    const { notReloaded, ...told } = jsonOf<{ notReloaded: string[] }>(broken);
    assert.deepEqual([broken.status, told], [1, { status: "not ready", checks, config: HASH }]);
    assert.match(notReloaded.join(), /^[^,]*tollgate\.yaml:\d+:1: Cannot use bogus/);
    const { out } = await says(["status"], notReady, { more: "bogus: 1\n" });
    const [place] = notReloaded.join().split(": ");
    assert.ok(out.endsWith(`\n  in force   01234567  not reloaded: ${place}\n`), out);
    await using gateway = await openGateway({ "/api/config": RUNNING, ...notReady });
    const named = await runVerb(["status", "--admin", gateway.origin]);
    assert.match(named.out, /\n {2}in force {3}01234567 *\n$/, "of the file it says nothing");
    const tokens = gateway.questions.map(({ headers }) => headers.authorization);
    assert.deepEqual(tokens, [undefined, undefined, undefined]);
  });

  it("the kind of reason for which a reload was refused, where the gateway does not tell the reasons in time", async () => {
    const why = "not reloaded: it needs a restart; the log says why";
    const readyz = { status: "ready", checks: { config: { ok: true, why } } };
    const waits: number[] = [];
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    const hurried = vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
      waits.push(ms);
      return timeout(ms === 2_000 ? 100 : ms);
    });
    try {
      const never = new Promise(() => {});
      const older = [404, { code: "not_found", message: "There is nothing here" }];
      for (const reload of [never, older, { notReloaded: 7 }]) {
        const answers = { "/readyz": readyz, "/api/reload": reload };
        const json = await says(["status", "--json"], answers);
        assert.deepEqual(jsonOf<{ notReloaded: string[] }>(json).notReloaded, [why]);
        const { status, out } = await says(["status"], answers);
        assert.deepEqual([status, out.split(why).length - 1], [0, 1], out);
      }
      const nothing = { "/readyz": readyz, "/api/reload": { notReloaded: [] } };
      const none = await says(["status", "--json"], nothing);
      assert.deepEqual(jsonOf<{ notReloaded: string[] }>(none).notReloaded, []);
      const told = { "/readyz": readyz, "/api/reload": { notReloaded: ["That of before"] } };
      const broken = await says(["status", "--json"], told, { more: "bogus: 1\n" });
      const { notReloaded } = jsonOf<{ notReloaded: string[] }>(broken);
      assert.equal(notReloaded.length, 1);
      assert.match(notReloaded.join(), /tollgate\.yaml:\d+:1: Cannot use bogus/);
      assert.equal(waits.filter((ms) => ms === 2_000).length, 7);
    } finally {
      hurried.mockRestore();
    }
  });

  it("why the gateway answers a part of it with an error, with 1", async () => {
    const ready = { "/readyz": { status: "ready", checks } };
    for (const [args, answers] of [
      [["status"], { ...ready, "/api/config": [500, { message: "It broke" }] }],
      [["status", "--all"], { ...ready, "/api/gateways": [500, { message: "It broke" }] }],
    ] as const) {
      const said = await says(args, answers);
      assert.deepEqual([said.status, said.out, said.err], [1, "", "It broke\n"]);
    }
    const strange = await says(["status"], { ...ready, "/api/config": { other: 1 } });
    assert.equal(strange.status, 1);
    assert.match(strange.err, /what answered is no admin listener of Tollgate/);
    const bare = await says(["status"], { "/readyz": { status: "ready" } });
    assert.match(bare.err, /what answered is no admin listener of Tollgate/);
  });

  it("all gateways: what each reports, what differs from most, and the sums of their rates", async () => {
    const one: GatewayReport = {
      ...{ name: "vm-1", version: "1.2.0", config: HASH, started: NOON_S, state: "ready" },
      ...{ requestsPerSecond: 1.25, refusalsPerSecond: 0.5, storeMs: 0.4, why: null },
      ...{ age: 0, self: true, differs: [] },
    };
    const other = { ...one, name: "vm-2", self: false, requestsPerSecond: 2, storeMs: null };
    const late = { ...other, state: "not ready", why: "the store is late" } as const;
    const dead = { ...other, name: "vm-3", state: "silent", requestsPerSecond: 0 } as const;
    const old = { ...dead, version: "1.1.0", age: 61, differs: ["version"] } as const;
    const all = (...gateways: GatewayReport[]) => {
      return says(["status", "--all"], { "/api/gateways": gateways });
    };
    const mixed = await all(one, late, old);
    assert.equal(
      mixed.out,
      `gateway  state      version  config    started               requests/s  refusals/s  store ms  why
vm-1 *   ready      1.2.0    01234567  2026-07-15 12:00:00Z        1.25         0.5  0.4
vm-2     not ready  1.2.0    01234567  2026-07-15 12:00:00Z           2         0.5  -         the store is late
vm-3     silent     1.1.0 !  01234567  2026-07-15 12:00:00Z           0         0.5  -         no news for 61 s
3 gateways, 3.3 requests/s, 1.5 refusals/s; * answers here; ! is not as in most gateways
`,
    );
    assert.equal(mixed.status, 1);
    const odd = await all(one, { ...other, config: "f".repeat(64), differs: ["config"] });
    assert.match(odd.out, /^vm-2 +ready +1\.2\.0 +f{8} ! /m);
    assert.equal(odd.status, 0);
    assert.equal((await all()).status, 1, "no gateway at all");
    const same = await all(one, other);
    assert.match(same.out, /\n2 gateways, 3\.3 requests\/s, 1\.0 refusals\/s; \* answers here\n$/);
    for (const gateway of [late, { ...late, state: "draining" } as const, old]) {
      assert.equal((await all(one, gateway)).status, 1, gateway.state);
    }
  });
});

describe("reload tells", () => {
  it("what else reloads where the gateway refuses its name, and nothing where the file is at fault", async () => {
    const refused = await says(["reload"], { "/api/reload": [403, { message: "No" }] });
    const instead = "Saving the file reloads it too, and so does SIGHUP to the process";
    assert.deepEqual([refused.status, refused.err], [1, `No (admin.listen, AT)\n${instead}\n`]);
    const stranger = await says(["reload"], { "/api/reload": [401, { message: "No" }] });
    const old =
      "Where admin.token was changed the gateway still has the old one: SIGHUP to the process, or saving the file, puts the new one in force";
    const set = "Set TOLLGATE_ADMIN_TOKEN, or admin.token in the file, to its token";
    assert.deepEqual(
      [stranger.status, stranger.err],
      [1, `No (admin.listen, AT). ${set}\n${old}\n`],
    );
    // A file that the gateway refused before is what this verb is for: it is no reason to warn.
    const checks = { config: { ok: true, why: "not reloaded" } };
    const readiness = { "/readyz": { status: "ready", checks } };
    const wait = vi.spyOn(AbortSignal, "timeout");
    const again = await says(["reload"], { ...readiness, "/api/reload": { hash: HASH } });
    const waits = wait.mock.calls.map(([ms]) => ms);
    wait.mockRestore();
    assert.deepEqual(waits, [90_000], "workers take their time");
    assert.deepEqual([again.status, again.err], [0, ""]);
    assert.match(again.out, /: 01234567 is in force, which is not that of .*tollgate\.yaml\n$/);
  });
});

it("reload tells the mistakes of the file once, also where the gateway tells them", async () => {
  const more = { more: "bogus: 1\n" };
  const [old] = (
    await says(["reload"], { "/api/reload": [409, { message: "No" }] }, more)
  ).err.split("\n");
  assert.match(old ?? "", /tollgate\.yaml:\d+:1: Cannot use bogus/);
  const mistakes = [{ file: "a.yaml", line: 3, column: 5, message: "Wrong" }];
  const told = [422, { message: "It has mistakes", mistakes }];
  const { err } = await says(["reload"], { "/api/reload": told }, more);
  assert.equal(err, "It has mistakes\na.yaml:3:5: Wrong\n");
});

it("reload tells at a terminal for how long it has waited", async () => {
  const seen = Promise.withResolvers<object>();
  const late = sleep(10_000, { hash: HASH }, { ref: false });
  const answers = { "/api/reload": Promise.race([seen.promise, late]) };
  const onErr = () => seen.resolve({ hash: HASH });
  const { status, err } = await says(["reload"], answers, { isErrTty: true, onErr });
  const clear = `${String.fromCharCode(27)}[K`;
  assert.deepEqual([status, err], [0, `\rWaiting for the gateway: 1 s${clear}\r${clear}`]);
});

it("a gateway whose file has mistakes is asked about accounts in place of its store", async () => {
  const settings = { store: "redis://127.0.0.1:1", more: "bogus: 1\n" };
  const said = await says(["bans", "list"], { "/api/bans": [] }, settings);
  assert.deepEqual([said.status, said.out], [0, "No account is banned\n"], said.err);
});

const API = `openapi: 3.1.0
info: { title: t, version: "1" }
paths:
  /old: { get: { deprecated: true, x-sunset: "2026-07-15", responses: {} } }
  /some: { get: { deprecated: true, responses: {} } }
`;

describe("deprecations tell", () => {
  const path = "/api/deprecations";
  const caller = (account: string, requests: number) => ({ account, requests, last: NOON_S });
  const some = (...accounts: object[]) => {
    return [{ environment: "production", method: "GET", route: "/v1/some", accounts }];
  };
  const described = async (api: string, answers: Answers, nowMs = NOON_S * 1_000) => {
    await using gateway = await openGateway({ "/api/config": RUNNING, [path]: some(), ...answers });
    await using other = await openGateway({ [path]: some(caller("b", 2), caller("a", 1)) });
    await writeFile(join(folder.path, "api.yaml"), api);
    const text = configText({ admin: gateway.port }).replaceAll(/api: .*/g, "api: ./api.yaml");
    await writeFile(file, text.replace(/ {2}staging:\n(?: {4}.*\n)+/, ""));
    const named = [gateway, other].flatMap(({ origin }) => ["--admin", origin]);
    const args = ["deprecations", ...named, "--config", file];
    return await runVerb(args, { nowMs });
  };

  it("an operation without a sunset, and one that is gone from the instant of its own", async () => {
    const gone = Date.UTC(2026, 6, 15);
    for (const [nowMs, left] of [
      [gone - 1, "1 day left, until"],
      [gone, "gone for 0 days, since"],
    ] as const) {
      const { out } = await described(API, {}, nowMs);
      assert.ok(
        out.startsWith(`production: GET /v1/old, ${left} 2026-07-15 00:00:00Z\n`),
        `${out} at ${nowMs}`,
      );
      assert.match(out, /^production: GET \/v1\/some, no sunset$/m);
    }
  });

  it("the calls at the gateway of the file, once though it is named and tells no name, and at the others, added up", async () => {
    const { out, err } = await described(API, { [path]: some(caller("a", 3)) });
    assert.equal(err, "");
    assert.match(out, /\na +4 {2}2026-07-15 12:00:00Z\nb +2 {2}2026-07-15 12:00:00Z\n$/);
  });

  it("that there are none, and who would know of calls where nobody can be asked", async () => {
    const none = 'openapi: 3.1.0\ninfo: { title: t, version: "1" }\npaths: {}\n';
    assert.equal((await described(none, {})).out, "No operation is deprecated\n");
    await writeFile(file, configText());
    const off = await runVerb(["deprecations", "--config", file]);
    const why = "Cannot ask the gateway, and the running gateway knows who calls: admin is off";
    assert.deepEqual([off.status, off.err], [1, `${why}, set admin.listen\n`]);
  });
});

describe("explain tells", () => {
  const explanation: Explanation = {
    ...{ id: "r-1", environment: "production", account: "acme", key: "k", plan: "free" },
    ...{ request: "GET /v1/pets", status: 429, code: "rate_limited", rule: "The share is used up" },
    ...{ cost: 1, charged: 0, window: null, windows: [], strikes: null, ban: null },
    ...{ decidedAt: NOON_S, decidedBy: "local", config: null, passesAt: null },
  };
  const explained = async (explanation: Explanation) => {
    return (await says(["explain", "r-1"], { "/api/explain/r-1": explanation })).out;
  };

  it("who decided, and no more than is known", async () => {
    const head = "429 rate_limited  GET /v1/pets of account acme, plan free";
    const decided = `${head}, decided 2026-07-15 12:00:00Z`;
    assert.equal(await explained(explanation), `${decided} (local)\nThe share is used up\n`);
    const unsaid = { ...explanation, decidedBy: null };
    assert.equal(await explained(unsaid), `${decided}\nThe share is used up\n`);
    const bare = { ...unsaid, code: null, account: null, decidedAt: null };
    assert.equal(await explained(bare), "429  GET /v1/pets\nThe share is used up\n");
  });

  it("that a request which others of its account hold up, or other gateways, may pass before its window ends", async () => {
    const waits = {
      meter_held: ", or as soon as requests under way have given enough back",
      store_unavailable: ", or as soon as the store is back and other gateways owe nothing",
      rate_limited: "",
    };
    for (const [code, wait] of Object.entries(waits)) {
      const decidedBy = code === "store_unavailable" ? "share" : "local";
      const out = await explained({ ...explanation, code, decidedBy, passesAt: NOON_S });
      const passes = `It would pass from 2026-07-15 12:00:00Z on${wait}, by what was counted then`;
      assert.equal(out.split("\n")[2], passes);
    }
  });

  it("once at which place a gateway was asked that does not answer", async () => {
    await using other = await openGateway({});
    const admins = ["--admin", "http://127.0.0.1:1", "--admin", "http://127.0.0.1:1"];
    const said = await says(["explain", "r-1", "--admin", other.origin, ...admins], {});
    const lines = [
      "There is nothing here",
      `${other.origin}: There is nothing here`,
      "Cannot ask the gateway at http://127.0.0.1:1 (--admin): nothing listens there. Is it running?",
    ];
    assert.deepEqual([said.status, said.err], [1, `${lines.join("\n")}\n`]);
  });
});

describe("bans why tells", () => {
  const owner = { account: "acme", environment: "production" };
  const ban = (at: number, until: number) => ({
    ...{ ...owner, window: "day", at, until, offences: 1, strikes: [] },
  });
  const line = (atS: number, untilS: number) => ({
    ...{ level: "warn", msg: "event", kind: "ban", account: "acme", env: "production" },
    ...{ window: "day", until: untilS, offences: 1, time: atS * 1_000, decidedAt: atS * 1_000 },
  });
  type Why = { readonly bans: readonly { at: number; until: number }[]; missing: string[] };
  const bansOf = ({ bans }: Why) => bans.map(({ at, until }) => [at - NOON_S, until - NOON_S]);

  it("of the logs and of the gateways that are named each ban once, oldest first, and not of that of the file", async () => {
    const now = { ...owner, strikes: 3, ban: null };
    const path = "/api/bans/acme";
    const own = { [path]: { ...now, bans: [ban(NOON_S - 9, NOON_S)] } };
    const more = [ban(NOON_S, NOON_S + 5), ban(NOON_S, NOON_S + 9), ban(NOON_S - 5, NOON_S)];
    await using other = await openGateway({ [path]: { ...now, bans: more } });
    const log = join(folder.path, "gateway.log");
    // The account that has this name in the store is that of production.
    const staging = { ...line(NOON_S - 7, NOON_S), env: "staging" };
    const lines = [staging, line(NOON_S, NOON_S + 5)];
    await writeFile(log, lines.map((one) => `${JSON.stringify(one)}\n`).join(""));
    const why = ["bans", "why", "acme", "--json", "--admin", other.origin];
    const logged = jsonOf<Why>(await says([...why, "--log", log], own));
    const named = [-5, 0];
    const both = [
      [0, 5],
      [0, 9],
    ];
    assert.deepEqual([bansOf(logged), logged.missing], [[named, ...both], []]);
    const asked = jsonOf<Why>(await says(why, own));
    assert.deepEqual(bansOf(asked), [[-9, 0], named, ...both]);
  });

  it("two bans of one account that begin and end in the same seconds", async () => {
    const path = "/api/bans/acme";
    const byHand = { ...ban(NOON_S, NOON_S + 60), imposed: true };
    const first = { ...byHand, reason: "first", lifted: NOON_S + 1 };
    const bans = [first, { ...byHand, reason: "second" }];
    const now = { [path]: { ...owner, strikes: 0, ban: null, bans } };
    await using other = await openGateway({
      [path]: { ...owner, strikes: 0, ban: null, bans: [{ ...byHand, reason: "first" }] },
    });
    const why = ["bans", "why", "acme", "--json", "--admin", other.origin];
    assert.deepEqual(jsonOf<Why>(await says(why, now)).bans, bans);
  });

  it("what is not known of a gateway that answers something else, and why the store cannot tell", async () => {
    const log = join(folder.path, "gateway.log");
    await writeFile(log, `${JSON.stringify(line(NOON_S, NOON_S + 5))}\n`);
    const path = "/api/bans/acme";
    const bare = { ...owner, strikes: 3, ban: null };
    const { missing } = jsonOf<Why>(
      await says(["bans", "why", "acme", "--json"], { [path]: bare }),
    );
    assert.match(
      missing.join("\n"),
      /^earlier bans are not known of every gateway: Cannot ask the/,
    );
    const away = { [path]: [503, { message: "The store is away" }] };
    const said = await says(["bans", "why", "acme", "--log", log], away);
    assert.equal(said.status, 0);
    const why = "whether it is banned now and its strikes are not known: The store is away";
    assert.ok(said.out.endsWith(`\nMissing: ${why}\n`), said.out);
  });
});
