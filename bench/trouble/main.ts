import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { diceOf } from "../../test/fuzz/random.ts";
import { say } from "../scale/house.ts";
import { openForgetfulBackend } from "../scale/traffic.ts";
import { faultsOf } from "./faults.ts";
import { GATEWAYS, type Line, PLANS, type PlanName, TroubleHouse } from "./house.ts";
import { judge, newTally, type Tally, unitsOf } from "./judge.ts";
import { type Asked, startLoad } from "./load.ts";

/**
 * npm run trouble [-- --minutes N --seed N --rate N --beside DIR]: three gateways on a Redis that is
 * paused, slow, cut off and restarted, with gateways that join, leave and are killed, in rounds. After
 * each, what clients were told is compared with the limits, the lines and the bill. `--beside`, a
 * second checkout with its packages, has the same rounds in turn. The exit status is 1 where an
 * account with room got a 429, a bound was passed, or the bill has a unit that nothing explains.
 */
const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
    rate: { type: "string", default: "80" },
    beside: { type: "string" },
    faults: { type: "string" },
  },
});
const [minutes, seed, rate] = [values.minutes, values.seed, values.rate].map(Number) as [
  number,
  number,
  number,
];
const ROUND_MS = 12_000;
const OWN = new URL("../../", import.meta.url).pathname;

type Side = { readonly house: TroubleHouse; readonly tally: Tally; readonly watch: Watch };

/** The lines of the gateways of a house since the last `take`. */
class Watch {
  #lines = new Map<string, Line>();
  #uncertain = new Map<string, number>();
  #lostUnits = 0;
  #regressions = 0;

  add(line: Line): void {
    if (line.msg === "request") this.#lines.set(String(line.id), line);
    if (line.msg === "charges_uncertain") {
      for (const text of String(line.accounts).split(", ")) {
        const [, account = "", units] = /^[^:]*:(\S+) (\d+)/.exec(text) ?? [];
        this.#uncertain.set(account, (this.#uncertain.get(account) ?? 0) + Number(units));
      }
    }
    if (line.msg === "charges_lost") this.#lostUnits += Number(line.units);
    if (line.msg === "counter_regression") this.#regressions += 1;
  }

  take() {
    const signs = {
      lines: this.#lines,
      uncertain: this.#uncertain,
      lostUnits: this.#lostUnits,
      regressions: this.#regressions,
    };
    this.#lines = new Map();
    this.#uncertain = new Map();
    this.#lostUnits = 0;
    this.#regressions = 0;
    return signs;
  }
}

/** The units of an account by its days. */
async function billOf({ gateways }: TroubleHouse, account: string): Promise<number> {
  const url = `${gateways[0]?.adminUrl}/api/history?days=3&account=${account}`;
  const response = await fetch(url);
  const days = (await response.json()) as { readonly units: number }[];
  if (response.status !== 200) throw new Error(`${url}: ${JSON.stringify(days)}`);
  return days.reduce((sum, { units }) => sum + units, 0);
}

function answeredOf(asked: readonly Asked[], account: string): number {
  return asked.reduce((sum, each) => {
    return each.account === account ? sum + unitsOf(each) : sum;
  }, 0);
}

/** The bill of each account, as soon as it is what was answered, else as it is after a while. */
async function billed(house: TroubleHouse, asked: readonly Asked[], accounts: readonly string[]) {
  const bill = new Map<string, number>();
  const untilMs = performance.now() + 4_000;
  for (const account of accounts) {
    const answered = answeredOf(asked, account);
    let units = await billOf(house, account);
    while (units !== answered && performance.now() < untilMs) {
      await sleep(100);
      units = await billOf(house, account);
    }
    bill.set(account, units);
  }
  return bill;
}

async function playRound({ house, tally, watch }: Side, number: number): Promise<void> {
  const dice = diceOf(seed, number);
  const accounts = (Object.keys(PLANS) as PlanName[]).map((plan) => {
    const account = `${plan}-${number}`;
    return { plan, account, key: house.keys.of(plan)[number] as string };
  });
  const faults =
    values.faults === undefined
      ? faultsOf(dice)
      : faultsOf(dice).filter(({ name }) => values.faults?.split(",").includes(name));
  const harms = new Set(faults.flatMap(({ harm }) => harm ?? []));
  const startedMs = Date.now();
  const load = startLoad(house, accounts, rate, diceOf(seed, -number));
  const endMs = performance.now() + ROUND_MS;
  await sleep(1_000);
  const killed = new Set(harms.has("kills") ? house.gateways.map(({ url }) => url) : []);
  let most = 0;
  const counting = setInterval(() => {
    most = Math.max(most, house.gateways.length);
  }, 100);
  await Promise.all(
    faults.map(async (fault) => {
      await sleep(dice.below(4_000));
      await fault.run(house, dice);
    }),
  );
  for (const { url } of house.gateways) killed.delete(url);
  await sleep(Math.max(1_000, endMs - performance.now()));
  const asked = await load.stop();
  await house.heal();
  clearInterval(counting);
  await sleep(1_200);
  const bill = await billed(
    house,
    asked,
    accounts.map(({ account }) => account),
  );
  const signs = watch.take();
  // A gateway that left and one that took its place are both counted for up to five seconds.
  const gateways =
    Math.max(most, GATEWAYS) + faults.filter(({ name }) => /leave|kill/.test(name)).length;
  const found = judge(tally, { asked, signs, billed: bill, harms, gateways, killed });
  const names = faults.map(({ name }) => name).join(", ");
  const told = `${signs.regressions} regressions, ${[...signs.uncertain.values()].reduce((a, b) => a + b, 0)} uncertain, ${signs.lostUnits} lost`;
  say(
    `${house.name} ${number} (${new Date(startedMs).toISOString().slice(11, 19)}) ${names}: ${asked.length} asked; ${told}`,
  );
  for (const line of found) say(`  ${line}`);
}

async function openSide(name: string, source: string, upstream: string): Promise<Side> {
  const watch = new Watch();
  const accountsOfPlan = Math.ceil((minutes * 60_000) / ROUND_MS) + 2;
  const options = { name, source, upstream, accountsOfPlan };
  const house = await TroubleHouse.open({ ...options, onLine: (line) => watch.add(line) });
  return { house, tally: newTally(), watch };
}

async function run(): Promise<number> {
  const backend = await openForgetfulBackend();
  const sources: [string, string][] = [["here", OWN]];
  if (values.beside !== undefined) sources.push(["beside", values.beside]);
  const sides: Side[] = [];
  for (const [name, source] of sources) sides.push(await openSide(name, source, backend.origin));
  const untilMs = performance.now() + minutes * 60_000;
  let number = 1;
  for (; performance.now() < untilMs; number++) {
    for (const side of sides) await playRound(side, number);
  }
  for (const { house, tally } of sides) {
    await house.close();
    say(`${house.name}, ${number - 1} rounds: ${JSON.stringify(tally, null, 1)}`);
  }
  backend.close();
  const [own] = sides;
  const { false429 = 0, overBound = 0, surplus = 0, lostLines = 0 } = own?.tally ?? {};
  return false429 + overBound + surplus + lostLines === 0 ? 0 : 1;
}

process.exitCode = await run();
