import assert from "node:assert/strict";
import { it } from "vitest";
import { loggedBans } from "../../src/cli/logs/logged-bans.ts";

const AT_S = 1_790_000_000;

it("the bans of logs are those of the account in its environment, oldest first, in whatever order the logs come", () => {
  const bans = loggedBans();
  const event = (atS: number, more: object = {}) => {
    const ban = { kind: "ban", account: "acme", env: "production", window: "minute" };
    const ends = { until: atS + 60, offences: 1, decidedAt: atS * 1_000, strikes: [atS] };
    bans.event({ msg: "event", ...ban, ...ends, ...more });
  };
  event(AT_S + 20);
  event(AT_S);
  event(AT_S + 10, { env: "staging" });
  event(AT_S + 15, { account: "other" });
  event(AT_S + 17, { kind: "quota" });
  const at = (environment: string) =>
    bans.of({ account: "acme", environment }).map((ban) => ban.at);
  assert.deepEqual(at("production"), [AT_S, AT_S + 20]);
  assert.deepEqual(at("staging"), [AT_S + 10]);
  assert.equal(bans.ownerOf("other")?.environment, "production");
  assert.equal(bans.ownerOf("nobody"), undefined);
});

it("more than 100,000 bans of logs leave the latest of them", () => {
  const bans = loggedBans();
  for (let i = 0; i <= 100_000; i++) {
    const ban = { kind: "ban", account: `a${i}`, env: "production", window: "minute" };
    const ends = { until: AT_S, offences: 1, decidedAt: AT_S * 1_000, strikes: [] };
    bans.event({ msg: "event", ...ban, ...ends });
  }
  const known = [0, 1, 100_000].map((i) => bans.ownerOf(`a${i}`)?.account);
  assert.deepEqual(known, [undefined, "a1", "a100000"]);
});

it("a lift ends the ban in which it is, whichever of the two events comes first, and no other", () => {
  const bans = loggedBans();
  const owner = { account: "acme", env: "production" };
  const lift = (atS: number, more: object = {}) => {
    bans.event({ msg: "event", kind: "ban_lifted", ...owner, time: atS * 1_000, ...more });
  };
  const ban = (atS: number, more: object = {}) => {
    const ends = { window: "minute", until: atS + 60, offences: 1, strikes: [atS] };
    bans.event({ msg: "event", kind: "ban", ...owner, ...ends, decidedAt: atS * 1_000, ...more });
  };
  lift(AT_S + 159);
  for (const atS of [0, 100, 200, 300, 400]) ban(AT_S + atS);
  ban(AT_S + 101, { observed: true });
  // At its end a ban ended by itself. A line that comes late tells when the ban was lifted.
  lift(AT_S + 60);
  lift(AT_S + 370, { decidedAt: (AT_S + 300) * 1_000 });
  lift(AT_S + 410, { env: "staging" });
  lift(AT_S + 410, { decidedAt: "soon" });
  const told = bans.of({ account: "acme", environment: "production" });
  const lifted = told.map((one) => one.lifted && one.lifted - AT_S);
  const expected = [undefined, 159, undefined, undefined, 300, undefined];
  assert.deepEqual(lifted, expected);
});

it("a ban is told in whole seconds, its end rounded up and its beginning down, and a lift before it in its second is none of it", () => {
  const bans = loggedBans();
  const owner = { msg: "event", account: "acme", env: "production" };
  const ends = { kind: "ban", window: "minute", until: AT_S + 60, offences: 1 };
  bans.event({ ...owner, ...ends, decidedAt: AT_S * 1_000 + 500, strikes: [AT_S + 0.4] });
  bans.event({ ...owner, kind: "ban_lifted", decidedAt: AT_S * 1_000 + 300 });
  const told = () => {
    return bans.of({ account: "acme", environment: "production" }).map((one) => {
      return [one.at, one.until, one.lifted, one.strikes[0]?.at];
    });
  };
  assert.deepEqual(told(), [[AT_S, AT_S + 60, undefined, AT_S]]);
  bans.event({ ...owner, kind: "ban_lifted", decidedAt: AT_S * 1_000 + 1_200 });
  assert.deepEqual(told(), [[AT_S, AT_S + 60, AT_S + 2, AT_S]]);
});

it("a ban that one by hand replaced is told as replaced when that one began, and a lift of the second ends none before it", () => {
  const bans = loggedBans();
  const owner = { msg: "event", account: "acme", env: "production" };
  const ban = (atS: number, lengthS: number, more: object = {}) => {
    const ends = { window: "day", until: AT_S + atS + lengthS, offences: 0, imposed: true };
    bans.event({ ...owner, kind: "ban", ...ends, decidedAt: (AT_S + atS) * 1_000 + 400, ...more });
  };
  const lift = (atS: number) => {
    bans.event({ ...owner, kind: "ban_lifted", decidedAt: (AT_S + atS) * 1_000 + 900 });
  };
  const told = () => {
    return bans.of({ account: "acme", environment: "production" }).map((one) => {
      return [one.at, one.replaced, one.lifted].map((atS) => atS && atS - AT_S);
    });
  };
  ban(0, 86_400);
  ban(60, 600, { observed: true });
  ban(100, 600);
  ban(100, 600);
  // The second is read twice, as from two files of a log.
  const second = [100, undefined, undefined];
  assert.deepEqual(told(), [[0, 100, undefined], [60, undefined, undefined], second, second]);
  lift(200);
  ban(300, 600);
  ban(901, 600);
  const lifted = [100, undefined, 201];
  const [third, fourth] = [300, 901].map((atS) => [atS, undefined, undefined]);
  const first = [0, 100, undefined];
  assert.deepEqual(told(), [first, [60, undefined, undefined], lifted, lifted, third, fourth]);
});

it("a ban during which another was earned is told without an early end: both hold, or its lift is not known", () => {
  const bans = loggedBans();
  const owner = { msg: "event", account: "acme", env: "production" };
  for (const atS of [AT_S, AT_S + 10]) {
    const ends = { window: "day", until: atS + 60, offences: 1, strikes: [atS] };
    bans.event({ ...owner, kind: "ban", ...ends, decidedAt: atS * 1_000 });
  }
  bans.event({ ...owner, kind: "ban_lifted", decidedAt: (AT_S + 20) * 1_000 });
  const told = bans.of({ account: "acme", environment: "production" });
  assert.deepEqual(
    told.map(({ replaced, lifted }) => [replaced, lifted]),
    [
      [undefined, undefined],
      [undefined, AT_S + 20],
    ],
  );
});

it("20,000 bans of one account are told in a time that grows with their number alone", () => {
  const timeMs = (count: number) => {
    const bans = loggedBans();
    const owner = { msg: "event", account: "acme", env: "production" };
    for (let i = 0; i < count; i++) {
      const ends = { window: "day", until: AT_S + i * 60 + 50, offences: 1, strikes: [AT_S] };
      bans.event({ ...owner, kind: "ban", ...ends, decidedAt: (AT_S + i * 60) * 1_000 });
    }
    const from = process.cpuUsage();
    assert.equal(bans.of({ account: "acme", environment: "production" }).length, count);
    return process.cpuUsage(from).user / 1_000;
  };
  timeMs(2_000);
  const few = Math.max(1, timeMs(2_000));
  assert.ok(timeMs(20_000) < 40 * few + 100, "ten times as many");
});
