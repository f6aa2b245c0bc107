import assert from "node:assert/strict";
import { it } from "vitest";
import { LoggedBans } from "../../../src/cli/logs/logged-bans.ts";

const AT_S = 1_790_000_000;

it("the bans of logs are those of the account in its environment, oldest first, in whatever order the logs come", () => {
  const bans = new LoggedBans();
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
  const bans = new LoggedBans();
  for (let i = 0; i <= 100_000; i++) {
    const ban = { kind: "ban", account: `a${i}`, env: "production", window: "minute" };
    const ends = { until: AT_S, offences: 1, decidedAt: AT_S * 1_000, strikes: [] };
    bans.event({ msg: "event", ...ban, ...ends });
  }
  const known = [0, 1, 100_000].map((i) => bans.ownerOf(`a${i}`)?.account);
  assert.deepEqual(known, [undefined, "a1", "a100000"]);
});
