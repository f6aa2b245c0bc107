import { eventually } from "../../test/support/poll.ts";
import { freePort } from "../../test/support/redis/redis.ts";
import { messages } from "../load/messages.ts";
import type { CaseRow, RunOptions } from "../report/report.ts";
import type { Server } from "../stage/server.ts";
import { newKeys, type Stage } from "../stage/stage.ts";
import { startTollgate, type TollgateOptions } from "../variants/tollgate.ts";
import { runRounds } from "./rounds.ts";
import { type SliceOptions, warmUp } from "./slice.ts";
import { medianSlice } from "./statistics.ts";

const MANY = 1000;
/** Each of a thousand accounts asks every other second. */
const RARE_PER_SECOND = 500;
/** Nobody is banned while refusals are measured: each is a possible strike all the same. */
const NEVER_BANNED = "{ strikes: 1000 }";
/** One strike and the account is banned, for longer than a benchmark lasts. */
const SOON_BANNED = "{ strikes: 1, within: 1h, grace: 1s, duration: 1h, max: 1h }";

type RefusalCase = { readonly name: string; readonly title: string; readonly slice: SliceOptions };

/** The cost of refusals to Tollgate on Redis, beside a request that is admitted. */
export async function measureRefusals(
  stage: Stage,
  options: RunOptions,
  say: (text: string) => void,
): Promise<CaseRow[]> {
  say("starting and warming the gateways of the refusals");
  const cases = [
    ...(await quotaCases(stage)),
    await banCase(stage),
    ...(await strangerCases(stage)),
  ];
  for (const { slice } of cases) {
    if (slice.ratePerSecond === undefined) await warmUp(slice, options.warmUpRequests);
  }
  const found = await runRounds(
    cases.map(({ name, slice }) => ({ id: name, slice })),
    { ...options, say },
  );
  return cases.flatMap(({ name, title }) => {
    const slice = medianSlice(found.get(name)?.slices ?? []);
    return slice === undefined ? [] : [{ name, title, slice }];
  });
}

async function quotaCases(stage: Stage): Promise<RefusalCase[]> {
  const [keys, one, many] = [newKeys(MANY), newKeys(1), newKeys(MANY)];
  const of = await begin(stage, keys, { spentKeys: [...one, ...many], bans: NEVER_BANNED });
  // Each account has used its one request, and the gateway knows.
  await warmUp({ ...of([...one, ...many], 429), status: undefined }, 3 * MANY);
  return [
    { name: "admitted", title: "admitted, 1,000 accounts", slice: of(keys, 200) },
    { name: "429-one", title: "429, one account, without pause", slice: of(one, 429) },
    { name: "429-many", title: "429, 1,000 accounts, without pause", slice: of(many, 429) },
    {
      name: "429-rare",
      title: "429, 1,000 accounts, each every 2 s",
      slice: { ...of(many, 429), ratePerSecond: RARE_PER_SECOND },
    },
  ];
}

async function banCase(stage: Stage): Promise<RefusalCase> {
  const [key = ""] = newKeys(1);
  const of = await begin(stage, newKeys(1), { spentKeys: [key], bans: SOON_BANNED });
  const slice = of([key], 429);
  await eventually(async () => (await ask(slice.server, key)).code === "key_banned", {
    withinMs: 20_000,
    everyMs: 200,
  });
  return { name: "429-banned", title: "429, one account, banned", slice };
}

/** A gateway of their own: the failures of an address are counted, and ours is everybody's. */
async function strangerCases(stage: Stage): Promise<RefusalCase[]> {
  const of = await begin(stage, newKeys(1), {});
  const strangers = newKeys(MANY);
  const { server } = of(strangers, 401);
  // The default allows 60 a minute; from then on every one is told to wait.
  for (let i = 0; i < 60; i++) await ask(server, strangers[i] ?? "");
  const { status } = await ask(server, strangers[0] ?? "");
  const slice = { ...of(strangers, status), mayBreak: true };
  return [
    { name: "401", title: `${status}, unknown keys past the failure allowance`, slice },
    {
      name: "401-rare",
      title: `${status}, the same, 500 a second`,
      slice: { ...slice, ratePerSecond: RARE_PER_SECOND },
    },
  ];
}

/** A gateway with a Redis of its own, so that no other one's heartbeats are among its commands. */
async function begin(stage: Stage, keys: readonly string[], more: Partial<TollgateOptions>) {
  const { backendPort } = stage;
  const store = await stage.ownStore();
  const ports = { port: await freePort(), storePort: store.port, backendPort };
  const directory = await stage.folder();
  const server = await startTollgate({ ...ports, directory, keys, store: "redis", ...more });
  stage.keep(server);
  return (some: readonly string[], status: number): SliceOptions => {
    return { server, store, next: messages("closed", some), status };
  };
}

async function ask({ port }: Server, key: string): Promise<{ status: number; code: unknown }> {
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(`http://127.0.0.1:${port}/v1/pets`, { headers });
  const { code } = (await response.json()) as { code?: unknown };
  return { status: response.status, code };
}
