import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { openAdmin, send } from "../access/admin-server.ts";
import { type Folder, openFolder, runVerb, writeConfig } from "../kit.ts";

const AT_S = Date.UTC(2026, 10, 22, 1) / 1_000;
const OWN = { account: "acme", env: "production", plan: "free" };

/** A request that was refused, without an account. */
const REFUSED = {
  ...{ level: "info", time: AT_S * 1_000, id: "r-1", method: "GET", route: "/v1/pets" },
  ...{ path: "/v1/pets", status: 401, code: "key_invalid", source: "gateway", decision: "none" },
  ...{ charged: 0, forwards: 0, durationMs: 1, client: "127.0.0.1", msg: "request" },
};

/** One that was refused for a ban that ends at `untilS`. */
const bannedRequest = (id: string, untilS: number) => ({
  ...{ ...REFUSED, ...OWN, id, key: "k", status: 429, code: "key_banned", decision: "refused" },
  ...{ decidedAt: AT_S * 1_000, cost: 1, strikes: 0, ban: untilS, by: "memory" },
});

const ban = (atS: number, untilS: number, more: object) => ({
  ...{ level: "warn", time: atS * 1_000, kind: "ban", ...OWN, window: "day", msg: "event" },
  ...{ until: untilS, offences: 1, ...more },
});

describe("what only logs tell", () => {
  let folder: Folder;
  const says = async (verb: string, ...lines: readonly object[]) => {
    const [log, file] = [join(folder.path, "gateway.log"), join(folder.path, "tollgate.yaml")];
    await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    return runVerb([...verb.split(" "), "--log", log, "--config", file]);
  };

  beforeAll(async () => {
    folder = await openFolder();
    await writeConfig(folder);
  });
  afterAll(() => folder[Symbol.asyncDispose]());

  it("of a request without windows and configuration has neither, among those of other requests", async () => {
    const lines = [REFUSED, { ...REFUSED, id: "r-2", path: "/v1/other" }];
    const { status, out } = await says("explain r-1", ...lines);
    assert.equal(status, 0);
    assert.match(out, /^401 key_invalid {2}GET \/v1\/pets\n[^\n]+\n$/);
    const json = JSON.parse((await says("explain r-1 --json", ...lines)).out);
    assert.deepEqual([json.id, json.account, json.windows], ["r-1", null, []]);
    const none = await says("explain r-3", ...lines);
    const where = join(folder.path, "gateway.log");
    assert.deepEqual([none.status, none.err], [1, `No line of ${where} is of that request\n`]);
  });

  it("of a request that was admitted says who decided it no more than its line", async () => {
    const passed = { ...bannedRequest("r-1", 0), ban: undefined, by: undefined, code: "not_found" };
    const { out } = await says("explain r-1", { ...passed, status: 404, decision: "admitted" });
    assert.match(out, /^404 not_found .*, decided 2026-11-22 01:00:00Z\n/);
  });

  it("of a ban says whether it was earned, imposed or only observed, also of two that begin or end together, the oldest first", async () => {
    const [earned, byHand, end] = [AT_S - 60, AT_S - 30, AT_S + 3_600];
    const strikes = { decidedAt: earned * 1_000, strikes: [earned] };
    const lines = [ban(earned, end, strikes), ban(byHand, end, { imposed: true, reason: "bot" })];
    const before = { at: AT_S - 120, until: AT_S - 60, window: "minute", offences: 1, strikes: [] };
    await using admin = await openAdmin((response) => {
      send(response, 200, { account: "acme", bans: [before] });
    });
    const why = await says(
      `bans why acme --admin ${admin.origin}`,
      ...lines,
      ban(byHand, end + 1, { ...strikes, observed: true, decidedAt: byHand * 1_000 }),
    );
    assert.deepEqual(why.out.match(/^ban .*$/gm), [
      "ban     2026-11-22 00:58:00Z  until 2026-11-22 00:59:00Z, by the minute limit, offence 1",
      "ban     2026-11-22 00:59:00Z  until 2026-11-22 02:00:00Z, but replaced 2026-11-22 00:59:30Z, by the day limit, offence 1",
      "ban     2026-11-22 00:59:30Z  until 2026-11-22 02:00:00Z, imposed by hand: bot",
      "ban     2026-11-22 00:59:30Z  only observed, by the day limit, offence 1",
    ]);
    const unknown =
      "Missing: whether it is banned now and its strikes are not known: Cannot ask the gateway";
    assert.ok(why.out.includes(unknown), why.out);
    const later = ban(end, end + 60, { imposed: true, reason: "later" });
    for (const [event, text] of [
      [lines[0], /the strikes that earned|earned/],
      [lines[1], /by hand: bot/],
    ] as const) {
      const { out } = await says("explain r-3", event ?? {}, later, bannedRequest("r-3", end));
      assert.match(out, text);
    }
  });

  it("of a ban that was lifted says when, also if a gateway tells the same ban without its lift", async () => {
    const told = {
      at: AT_S,
      until: AT_S + 3_600,
      window: "day",
      offences: 1,
      strikes: [{ at: AT_S }],
    };
    await using admin = await openAdmin((response) => {
      send(response, 200, { account: "acme", bans: [told] });
    });
    const lift = { kind: "ban_lifted", decidedAt: (AT_S + 30) * 1_000 };
    const earned = { decidedAt: AT_S * 1_000, strikes: [AT_S] };
    const lines = [ban(AT_S, AT_S + 3_600, earned), ban(AT_S + 31, 0, lift)];
    const why = await says(`bans why acme --admin ${admin.origin}`, ...lines);
    assert.deepEqual(why.out.match(/^ban .*$/gm), [
      "ban     2026-11-22 01:00:00Z  until 2026-11-22 02:00:00Z, but lifted 2026-11-22 01:00:30Z, by the day limit, offence 1",
    ]);
  });

  it("of a ban that another gateway replaced says so, and its lift is that of the ban in force then", async () => {
    const told = (at: number, until: number, more: object = {}) => {
      const ban = { at, until, window: "day", offences: 0, imposed: true, strikes: [] };
      return { ...ban, ...more };
    };
    const [second, third] = [AT_S + 10, AT_S + 20];
    const bans = [told(second, AT_S + 900, { replaced: third }), told(third, AT_S + 600)];
    await using admin = await openAdmin((response) => {
      send(response, 200, { account: "acme", bans });
    });
    const lift = { kind: "ban_lifted", decidedAt: (AT_S + 40) * 1_000 };
    const lines = [ban(AT_S, AT_S + 3_600, { imposed: true }), ban(AT_S + 40, 0, lift)];
    const why = await says(`bans why acme --admin ${admin.origin}`, ...lines);
    assert.deepEqual(why.out.match(/^ban .*$/gm), [
      "ban  2026-11-22 01:00:00Z  until 2026-11-22 02:00:00Z, but replaced 2026-11-22 01:00:10Z, imposed by hand",
      "ban  2026-11-22 01:00:10Z  until 2026-11-22 01:15:00Z, but replaced 2026-11-22 01:00:20Z, imposed by hand",
      "ban  2026-11-22 01:00:20Z  until 2026-11-22 01:10:00Z, but lifted 2026-11-22 01:00:40Z, imposed by hand",
    ]);
  });

  it("of a ban that was lifted before the next one says so, also if a gateway that lacks the lift tells it as replaced", async () => {
    const first = { at: AT_S, until: AT_S + 3_600, imposed: true };
    const told = [
      { ...first, replaced: AT_S + 50 },
      { ...first, at: AT_S + 50, until: AT_S + 900 },
      { ...first, at: AT_S + 90, until: AT_S + 600 },
    ];
    await using admin = await openAdmin((response) => {
      const bans = told.map((one) => ({ window: "day", offences: 0, strikes: [], ...one }));
      send(response, 200, { account: "acme", bans });
    });
    const lift = (atS: number) => {
      return ban(Math.floor(atS), 0, { kind: "ban_lifted", decidedAt: atS * 1_000 });
    };
    const lines = [ban(first.at, first.until, { imposed: true })];
    const ends = async (liftS: number) => {
      const args = `bans why acme --admin ${admin.origin}`;
      const { out } = await says(args, ...lines, lift(liftS));
      return out.match(/(?<=but )\S+|imposed by hand$|by the day.*/gm)?.join(" ");
    };
    const until = "imposed by hand";
    const [lifted, replaced] = ["lifted imposed by hand", "replaced imposed by hand"];
    assert.equal(await ends(AT_S + 40), `${lifted} ${replaced} ${until}`);
    assert.equal(await ends(AT_S + 70), `${replaced} ${lifted} ${until}`);
    assert.equal(await ends(AT_S + 100), `${replaced} ${replaced} ${lifted}`);
    // The second is over when the third begins.
    told[1] = { ...first, at: AT_S + 50, until: AT_S + 80 };
    assert.equal(await ends(AT_S + 100), `${replaced} ${until} ${lifted}`);
    told.pop();
    assert.equal(await ends(AT_S + 100), `${replaced} ${until}`);
    // A lift in the second in which the next ban began came before it.
    assert.equal(await ends(AT_S + 50.5), `${lifted} ${until}`);
    told[1] = { ...first, at: AT_S + 50, until: AT_S + 80, imposed: false };
    assert.equal(await ends(AT_S + 100), `${until} by the day limit, offence 0`);
    // The second began in the second of the first, and the third replaced the second.
    told.splice(
      0,
      2,
      { ...first, replaced: AT_S },
      { ...first, until: AT_S + 900, replaced: AT_S + 9 },
    );
    told.push({ ...first, at: AT_S + 9, until: AT_S + 50 });
    const { out } = await says(`bans why acme --admin ${admin.origin}`, ...lines);
    assert.deepEqual(out.match(/(?<=replaced .*:)\d+(?=Z)/g), ["00", "09"]);
  });

  it("is nothing of an account that no line names, and why the store does not tell either is said", async () => {
    const { status, out, err } = await says("bans why nobody", REFUSED);
    assert.deepEqual([status, out], [1, ""]);
    assert.match(err, /admin\.listen/);
  });

  it("is known of an account by its requests alone, and what a gateway tells that is no ban is none", async () => {
    await using admin = await openAdmin((response) => send(response, 200, { account: "acme" }));
    const line = bannedRequest("r-1", AT_S);
    const other = { ...bannedRequest("r-2", AT_S), account: "other", key: "o" };
    const why = `bans why k --admin ${admin.origin}`;
    const { status, out } = await says(why, REFUSED, line, other);
    assert.equal(status, 0);
    const unknown = "Account acme (production): whether it is banned now is not known\n";
    assert.ok(out.startsWith(unknown), out);
    assert.match(out, /^No event of a ban of it is remembered$/m);
    assert.match(out, /^Missing: earlier bans .* no admin listener of Tollgate/m);
  });

  it("is read from all logs that a shell has put in the place of --log *.log", async () => {
    const file = join(folder.path, "tollgate.yaml");
    const [first, second] = [join(folder.path, "a.log"), join(folder.path, "b.log")];
    const end = AT_S + 3_600;
    await writeFile(first, `${JSON.stringify(REFUSED)}\n`);
    const lines = [bannedRequest("r-9", end), ban(AT_S, end, { imposed: true })];
    await writeFile(second, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    for (const [verb, text] of [
      ["explain r-9", /^429 key_banned .*, decided 2026-11-22 01:00:00Z \(memory\)$/m],
      ["bans why acme", /imposed by hand/],
    ] as const) {
      const asked = [...verb.split(" "), "--log", first, second, "--config", file];
      assert.match((await runVerb(asked)).out, text, verb);
    }
  });

  it("lacks what lines could not be read, which is told", async () => {
    const log = join(folder.path, "damaged.log");
    const end = AT_S + 3_600;
    const lines = [bannedRequest("r-1", end), ban(AT_S, end, { imposed: true })];
    await writeFile(log, `{"broken\n${lines.map((line) => `${JSON.stringify(line)}\n`).join("")}`);
    const where = ["--log", log, "--config", join(folder.path, "tollgate.yaml")];
    const damage = `Missing: 1 damaged line left out, the first at ${log}:1\n`;
    for (const [id, status] of [
      ["r-1", 0],
      ["r-2", 1],
    ] as const) {
      const said = await runVerb(["explain", id, ...where]);
      assert.equal(said.status, status);
      assert.ok(said.err.startsWith(damage), said.err);
    }
    assert.ok((await runVerb(["bans", "why", "acme", ...where])).out.includes(damage));
  });

  it("is asked for one request at a time", async () => {
    const said = await runVerb(["explain", "r-1", "r-2", "--config", join(folder.path, "no.yaml")]);
    assert.deepEqual([said.status, said.out], [64, ""]);
    const wrong = "Unexpected argument 2: one is taken";
    assert.equal(said.err, `${wrong} (see: tollgate help explain)\n`);
    const why = await runVerb(["bans", "why", "acme", "more", "--config", "no.yaml"]);
    assert.deepEqual([why.status, why.err], [64, `${wrong} (see: tollgate help bans why)\n`]);
  });

  it("is asked of each gateway, and one that is not there is named once", async () => {
    const [file, admin] = [join(folder.path, "tollgate.yaml"), "http://127.0.0.1:9"];
    const said = await runVerb(["explain", "r-1", "--admin", admin, "--config", file]);
    assert.deepEqual([said.status, said.out], [1, ""]);
    assert.match(
      said.err,
      /admin is off.*\nCannot ask the gateway at http:\/\/127\.0\.0\.1:9 .*\n$/,
    );
  });
});
