import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { KeyRecord } from "../../../src/core/keys/records.ts";
import type { Environment, GatewayContext } from "../../../src/gateway/exchange/environment.ts";
import { OpenTunnels } from "../../../src/gateway/tunnel/open-tunnels.ts";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Counts the looks at keys, which are not there yet. */
function tunnels() {
  let looks = 0;
  const keys = {
    get ready() {
      looks += 1;
      return false;
    },
  };
  const all = new OpenTunnels({ keys } as unknown as GatewayContext, () => []);
  return { all, looks: () => looks };
}

const environment = { limits: { tunnelsPerKey: 2 } } as unknown as Environment;
const tunnel = (owner: string) => ({
  ...{ key: undefined, owner, environment },
  client: "192.0.2.1",
  close: () => {},
});

it("tunnels are looked at each second while one is open, and not once the last has gone", () => {
  const { all, looks } = tunnels();
  const [one, other] = [tunnel("k_1"), tunnel("k_2")];
  all.enter(one);
  all.enter(other);
  vi.advanceTimersByTime(3_000);
  expect(looks()).toBe(3);
  all.leave(one);
  vi.advanceTimersByTime(2_000);
  expect(looks()).toBe(5);
  all.leave(other);
  expect(vi.getTimerCount()).toBe(0);
  vi.advanceTimersByTime(5_000);
  expect(looks()).toBe(5);
});

it("a tunnel that comes after the last has gone is looked at again, and leaves once", () => {
  const { all, looks } = tunnels();
  const first = tunnel("k_1");
  all.enter(first);
  all.leave(first);
  all.leave(first);
  const second = tunnel("k_1");
  expect(all.enter(second)).toBe(true);
  expect(all.size).toBe(1);
  vi.advanceTimersByTime(2_000);
  expect(looks()).toBe(2);
});

it("the store is asked about no ban in an environment that is served without bans now, and about those of one that is gone", () => {
  const quotas = { peek: vi.fn(async () => undefined) };
  const keys = { ready: false };
  const named = { ...environment, name: "production", isAddressAllowed: () => true };
  const served = [{ ...named, bans: undefined } as Environment];
  const gateway = { keys, quotas } as unknown as GatewayContext;
  for (const now of [served, []]) {
    const all = new OpenTunnels(gateway, () => now);
    const key = { environment: "production", account: "a" } as KeyRecord;
    const before = { ...named, bans: {} } as unknown as Environment;
    all.enter({ ...tunnel("k_1"), key, environment: before });
    vi.advanceTimersByTime(1_000);
    expect(quotas.peek).toHaveBeenCalledTimes(now === served ? 0 : 1);
    vi.clearAllTimers();
  }
});

it("the store is asked about a ban at each look, and not again while it has not answered", async () => {
  const asked: (() => void)[] = [];
  const quotas = { peek: () => new Promise((resolve) => asked.push(() => resolve({}))) };
  const keys = { ready: false, account: () => undefined };
  const all = new OpenTunnels({ keys, quotas } as unknown as GatewayContext, () => []);
  const bans = {
    limits: { tunnelsPerKey: 2 },
    plans: new Map(),
    bans: {},
  } as unknown as Environment;
  const key = { environment: "production", account: "a" } as KeyRecord;
  all.enter({ ...tunnel("k_1"), key, environment: bans });
  vi.advanceTimersByTime(3_000);
  expect(asked.length).toBe(1);
  asked[0]?.();
  await new Promise(setImmediate);
  vi.advanceTimersByTime(1_000);
  expect(asked.length).toBe(2);
});

it("of more accounts than are asked about together, only the tunnels of the banned one are closed", async () => {
  const banned = { nowMs: 1, ban: { untilMs: 2 } };
  const peek = async ({ account }: AccountRef) => (account === "a_65" ? banned : { nowMs: 1 });
  const keys = { ready: false };
  const gateway = { keys, quotas: { peek } } as unknown as GatewayContext;
  const all = new OpenTunnels(gateway, () => []);
  const closed: string[] = [];
  for (let i = 0; i < 70; i++) {
    const key = { environment: "production", account: `a_${i}` } as KeyRecord;
    const close = (status: number, why: string) => void closed.push(`k_${i} ${status} ${why}`);
    const served = { ...environment, bans: {} } as unknown as Environment;
    all.enter({ ...tunnel(`k_${i}`), key, environment: served, close });
  }
  vi.advanceTimersByTime(1_000);
  await vi.waitFor(() => expect(closed).toEqual(["k_65 1008 the account is banned"]));
});
