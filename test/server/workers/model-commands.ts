import assert from "node:assert/strict";
import type fc from "fast-check";
import { each } from "../../support/each.ts";
import { eventually } from "../../support/poll.ts";
import type { Outcome } from "./kit.ts";
import { type Content, type GatewayUnderTest, MISTAKES, type Mistake } from "./model-gateway.ts";

/** The knowledge of an operator about the gateway, by what was done to it. */
export type Model = {
  state: "up" | "draining" | "down";
  file: Content;
  /** The last configuration that was put in force, in every process. */
  inForce: Content;
  /** Whether the last reload changed nothing. */
  isRefused: boolean;
  /** Units that were admitted; of a killed process with the memory store, `least` were saved. */
  charged: { least: number; most: number };
  readonly isShared: boolean;
  held: Held[];
  /** Processes that were killed: more than five a minute are a loop, which has a test of its own. */
  kills: number;
  /** The processes that were killed since the gateway was told to end. */
  killedInDrain: number[];
  limits: number;
};
/** A request that the backend does not answer yet, and how it can end when it does. */
type Held = { readonly outcome: Promise<Outcome>; fate: "whole" | "cut" | "either" };

type Command = fc.AsyncCommand<Model, GatewayUnderTest>;
type Run = (model: Model, real: GatewayUnderTest) => Promise<void>;

const KILLS_MAX = 5;
/** More connections than processes, so that each is likely to take one. */
const AT_ONCE = 12;

/** A step that happens in one of these states, and what must hold after it. */
function command(name: string, check: (model: Readonly<Model>) => boolean, run: Run): Command {
  return {
    check: (model) => check(model),
    run: async (model, real) => {
      await run(model, real);
      await holds(model, real);
    },
    toString: () => name,
  };
}

const processes = ({ isShared, inForce }: Model): number => (isShared ? inForce.fixed : 1);

/** Checks all that must be true whenever nothing is under way. */
async function holds(model: Model, real: GatewayUnderTest): Promise<void> {
  if (model.state === "down") return;
  const isUp = model.state === "up";
  const checks = await eventually(async () => {
    if (isUp && processes(model) > 1) assert.equal(real.workers.length, processes(model));
    const now = await real.ready();
    // A store that answers late on a busy machine is away for a moment.
    assert.equal(now.status, isUp ? 200 : 503);
    return now.checks;
  });
  assert.equal(checks.draining?.ok, isUp);
  const why = isUp && processes(model) > 1 ? { ok: true } : checks.workers;
  assert.deepEqual(checks.workers, why, "all of them serve");
  assert.equal(checks.config?.ok, true);
  assert.equal(checks.config?.why?.startsWith("not reloaded: "), model.isRefused || undefined);
  await inForce(model, real);
  if (!isUp) return;
  await asked(model, real);
}

/**
 * Every process answers by the configuration in force, and each request is counted once. Where the
 * machine is so busy that a store is away for a moment, all are asked again.
 */
async function asked(model: Model, real: GatewayUnderTest): Promise<void> {
  const outcomes = await Promise.all(Array.from({ length: AT_ONCE }, () => real.ask()));
  const isAway = ({ status }: Outcome) => status === 503;
  const served = outcomes.filter((outcome) => !isAway(outcome));
  model.charged.least += served.length;
  model.charged.most += AT_ONCE;
  if (served.length < AT_ONCE) return holds(model, real);
  for (const { status, limit, code } of each(served)) {
    assert.deepEqual([status, limit, code], [200, model.inForce.limit, undefined]);
  }
  const counted = await real.counted();
  const { least, most } = model.charged;
  assert.ok(counted >= least && counted <= most, `${counted} counted of ${least} to ${most}`);
  model.charged = { least: counted, most: counted };
}

/** Reads the file as a reload or a start does. */
function judge({ file, inForce }: Model): "taken" | "mistake" | "restart" {
  if (file.mistake !== undefined) return "mistake";
  return file.fixed === inForce.fixed ? "taken" : "restart";
}

/**
 * Waits until a reload of the file as it is was told. The reload of an earlier save, which was
 * noticed besides its signal, may be told after the mark too.
 */
async function reloaded(model: Model, real: GatewayUnderTest, mark: number): Promise<void> {
  const judged = judge(model);
  model.isRefused = judged !== "taken";
  if (judged === "taken") {
    model.inForce = model.file;
    const { hash } = await eventually(() => inForce(model, real));
    await real.told("config_reloaded", mark, (line) => line.hash === hash);
    return;
  }
  const expected =
    judged === "restart"
      ? /^Cannot change (workers|storePrefix) from \S+ to \S+ by a reload: restart the gateway/
      : /^\S+tollgate\.yaml:\d+:\d+: ./;
  await real.told("config_refused", mark, ({ why }) => expected.test(String(why)));
}

/** The configuration as the gateway tells it, once it is the one that the model knows. */
async function inForce(
  model: Model,
  real: GatewayUnderTest,
): Promise<Readonly<Record<string, unknown>>> {
  const config = await real.api("/api/config");
  const plans = JSON.stringify(config.plans);
  assert.ok(plans.includes(String(model.inForce.limit)), plans);
  return config;
}

const nextLimit = (model: Model): number => {
  model.limits += 1;
  return 1_000_000 + model.limits;
};

type Save = { readonly kind: "good" | "restart" | Mistake; readonly by: "in place" | "by rename" };

function saved(model: Model, real: GatewayUnderTest, { kind, by }: Save): void {
  const { fixed } = model.inForce;
  const mistake = MISTAKES.find((one) => one === kind);
  const other = kind === "restart" ? (fixed % 3) + 1 : fixed;
  model.file = { limit: nextLimit(model), fixed: other, mistake };
  real.save(model.file, by);
}

/** Kills one process that serves, or several at the same time, and waits until that was seen. */
async function killed(model: Model, real: GatewayUnderTest, count: number): Promise<void> {
  const victims = real.workers.slice(0, count);
  model.kills += victims.length;
  const everyOne = victims.length === real.workers.length;
  for (const one of model.held) one.fate = everyOne ? "cut" : "either";
  for (const pid of victims) {
    try {
      process.kill(pid, "SIGKILL");
      if (model.state !== "up") model.killedInDrain.push(pid);
    } catch (failure) {
      // During a drain a process that has nothing left to answer ends by itself.
      if ((failure as NodeJS.ErrnoException).code !== "ESRCH" || model.state === "up")
        throw failure;
    }
  }
  if (model.state !== "up") return;
  await eventually(() => assert.ok(!real.workers.some((pid) => victims.includes(pid))));
}

/** Lets the backend answer what it holds, and looks at how each request ended. */
async function released(model: Model, real: GatewayUnderTest): Promise<void> {
  real.release();
  for (const { outcome, fate } of model.held.splice(0)) {
    const { status } = await outcome;
    if (fate !== "either") assert.equal(status, fate === "whole" ? 200 : 0);
    else assert.ok(status === 200 || status === 0, `${status}`);
  }
}

/** The process ends with this status, after a last line, and without a reload since the signal. */
async function ended(model: Model, real: GatewayUnderTest, status: number): Promise<void> {
  const { code, signal, stderr } = await real.running.exited;
  assert.deepEqual({ code, signal, stderr }, { code: status, signal: null, stderr: "" });
  const lines = real.running.lines();
  const names = lines.map(({ msg }) => msg);
  assert.equal(names.indexOf("stopped"), names.length - 1, "the last line, and told once");
  const last = lines.slice(names.lastIndexOf("draining"));
  const started = last.filter(({ msg }) => msg === "reloading" || msg === "worker_serves");
  assert.deepEqual(started, []);
  for (const { msg, pid, afterMs } of last) {
    if (msg !== "worker_lost") continue;
    assert.equal(afterMs, undefined, "no other takes its place");
    // A process that was killed had ended by itself, if it is not told.
    assert.ok(model.killedInDrain.includes(Number(pid)), `${pid} was not killed`);
  }
  model.state = "down";
  await real.gone();
}

export const start = command(
  "start",
  ({ state }) => state === "down",
  async (model, real) => {
    // Requests that a killed gateway still serves end first, so that each count is that of one.
    await released(model, real);
    await real.gone();
    const result = await real.start();
    if (model.file.mistake !== undefined) {
      assert.equal(result?.code, 78);
      assert.match(result.stderr, /^\S+tollgate\.yaml:\d+:\d+: ./);
      return;
    }
    assert.equal(result, undefined);
    Object.assign(model, {
      state: "up",
      inForce: model.file,
      isRefused: false,
      kills: 0,
      killedInDrain: [],
    });
  },
);

export const hold = command(
  "hold",
  ({ state, held }) => state === "up" && held.length < 4,
  async (model, real) => {
    const before = real.holds;
    model.held.push({ outcome: real.ask(true), fate: "whole" });
    await eventually(() => assert.equal(real.holds, before + 1));
    model.charged.least += 1;
    model.charged.most += 1;
  },
);

export const release = command(
  "release",
  ({ held }) => held.length > 0,
  async (model, real) => {
    await released(model, real);
    if (model.state === "draining") await ended(model, real, 0);
  },
);

/** SIGHUP, and a call of the admin API. */
export const hangUp = command(
  "SIGHUP",
  ({ state }) => state !== "down",
  async (model, real) => {
    const mark = real.mark();
    process.kill(real.running.pid, "SIGHUP");
    if (model.state === "up") await reloaded(model, real, mark);
  },
);

export const callReload = command(
  "POST /api/reload",
  ({ state }) => state === "up",
  async (model, real) => {
    const mark = real.mark();
    const { status, code } = await real.api("/api/reload", "POST");
    const expected = { taken: [200, undefined], mistake: [422, "config_invalid"] };
    const told = { ...expected, restart: [409, "reload_refused"] };
    assert.deepEqual([status, code], told[judge(model)]);
    await reloaded(model, real, mark);
  },
);

export function save(how: Save, also: "" | "and SIGHUP" | "and kill" = ""): Command {
  const isKill = also === "and kill";
  return command(
    `save ${how.kind} ${how.by} ${also}`.trimEnd(),
    (model) => !isKill || (model.state === "up" && canKill(model, 1)),
    async (model, real) => {
      const mark = model.state === "down" ? 0 : real.mark();
      saved(model, real, how);
      if (model.state === "down") return;
      if (also === "and SIGHUP") process.kill(real.running.pid, "SIGHUP");
      if (isKill) await killed(model, real, 1);
      if (model.state === "up") await reloaded(model, real, mark);
    },
  );
}

function canKill(model: Model, count: number): boolean {
  return processes(model) > 1 && model.kills + count <= KILLS_MAX;
}

export function kill(count: number): Command {
  return command(
    `kill ${count}`,
    (model) => model.state !== "down" && canKill(model, count),
    async (model, real) => {
      await killed(model, real, count);
      if (model.state === "up") return;
      await released(model, real);
      await ended(model, real, 0);
    },
  );
}

/** One that has taken the place of a killed one is killed as soon as it serves. */
export const killAgain = command(
  "kill, and its successor",
  (model) => model.state === "up" && canKill(model, 2),
  async (model, real) => {
    const before = real.workers;
    await killed(model, real, 1);
    const successor = await eventually(() => {
      return real.workers.find((pid) => !before.includes(pid)) ?? false;
    });
    model.kills += 1;
    for (const one of model.held) if (one.fate === "whole") one.fate = "either";
    process.kill(Number(successor), "SIGKILL");
    await eventually(() => assert.ok(!real.workers.includes(Number(successor))));
  },
);

export const stop = command(
  "SIGTERM",
  ({ state }) => state === "up",
  async (model, real) => {
    const mark = real.mark();
    process.kill(real.running.pid, "SIGTERM");
    const { signal } = await real.told("draining", mark);
    assert.equal(signal, "SIGTERM");
    model.state = "draining";
    if (!model.held.some(({ fate }) => fate === "whole")) {
      // Where a process was killed, nobody knows whether something is left to wait for.
      await released(model, real);
      return ended(model, real, 0);
    }
    await eventually(() => isClosed(model, real));
  },
);

/** Whether no connection is taken any more. A process that has not heard of the drain yet serves. */
async function isClosed({ charged }: Model, real: GatewayUnderTest): Promise<boolean> {
  const { status, code } = await real.ask();
  if (code === "ECONNREFUSED") return true;
  if (status === 200) charged.least += 1;
  charged.most += 1;
  return false;
}

/** A second signal, another than the first: the same one within a moment would be one. */
export const stopAtOnce = command(
  "SIGINT",
  ({ state }) => state === "draining",
  async (model, real) => {
    process.kill(real.running.pid, "SIGINT");
    for (const one of model.held) one.fate = "cut";
    await Promise.all(model.held.map(({ outcome }) => outcome));
    await released(model, real);
    await ended(model, real, 130);
  },
);

/** SIGKILL of the process that was started: others finish what they have, and end. */
export const crash = command(
  "SIGKILL",
  ({ state }) => state !== "down",
  async (model, real) => {
    const isAlone = processes(model) === 1;
    const wasUp = model.state === "up";
    for (const one of model.held) if (isAlone || !wasUp) one.fate = "cut";
    if (!model.isShared) model.charged.least = 0;
    await real.crash();
    model.state = "down";
    if (model.held.length === 0 || isAlone || !wasUp) {
      await released(model, real);
      await real.gone();
    }
  },
);
