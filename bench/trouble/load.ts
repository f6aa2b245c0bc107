import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Dice } from "../../test/fuzz/random.ts";
import { COSTS, type Gateway, type PlanName, type TroubleHouse } from "./house.ts";

/** A request, and what its client was told. */
export type Asked = {
  readonly account: string;
  readonly plan: PlanName;
  readonly path: string;
  readonly cost: number;
  readonly gateway: Gateway;
  readonly sentMs: number;
  /** Undefined while it is under way, 0 where the connection ended without an answer. */
  status?: number;
  receivedMs: number;
  id?: string | undefined;
  code?: string | undefined;
  window?: string | undefined;
  resetMs: number;
};

const PATHS = Object.keys(COSTS);

/** Requests of the accounts through any gateway, at so many a second, until it is stopped. */
export function startLoad(
  house: TroubleHouse,
  accounts: readonly { readonly key: string; readonly plan: PlanName; readonly account: string }[],
  perSecond: number,
  dice: Dice,
) {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const asked: Asked[] = [];
  const answers: Promise<void>[] = [];
  let isRunning = true;
  const one = (i: number) => {
    const { gateways } = house;
    if (gateways.length === 0) return;
    const { key, plan, account } = accounts[i % accounts.length] as (typeof accounts)[number];
    const path = dice.chance(3) ? dice.one(PATHS) : "one";
    const cost = COSTS[path] as number;
    const gateway = dice.one(gateways);
    const each: Asked = {
      ...{ account, plan, path, cost, gateway, sentMs: Date.now() },
      ...{ receivedMs: Number.POSITIVE_INFINITY, resetMs: 0 },
    };
    asked.push(each);
    answers.push(ask(each, key, agent));
  };
  const runs = (async () => {
    const startMs = performance.now();
    for (let i = 0; isRunning; await sleep(5)) {
      const due = Math.min(i + 40, ((performance.now() - startMs) / 1_000) * perSecond);
      for (; i < due; i++) one(i);
    }
  })();
  const stop = async () => {
    isRunning = false;
    await runs;
    await Promise.all(answers);
    agent.destroy();
    return asked;
  };
  return { asked, stop };
}

function ask(each: Asked, key: string, agent: Agent): Promise<void> {
  const headers = { Authorization: `Bearer ${key}` };
  const url = `${each.gateway.url}/v1/${each.path}`;
  return new Promise((resolve) => {
    const fail = () => {
      each.status ??= 0;
      each.receivedMs = Date.now();
      resolve();
    };
    const sent = request(url, { agent, headers }, (response) => {
      const field = (name: string) => response.headers[name] as string | undefined;
      let body = "";
      response.setEncoding("utf8").on("data", (piece: string) => {
        body += piece;
      });
      response.once("error", fail);
      response.once("end", () => {
        each.status = response.statusCode ?? 0;
        each.receivedMs = Date.now();
        each.id = field("x-request-id");
        each.window = field("x-ratelimit-window");
        each.resetMs = Number(field("x-ratelimit-reset")) * 1_000;
        if (each.status >= 400) each.code = (JSON.parse(body) as { code: string }).code;
        resolve();
      });
    });
    sent.once("error", fail).end();
  });
}
