import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { startTestUpstream, type TestUpstream } from "../support/gateway/backend.ts";
import { type RunningProcess, startTollgate } from "../support/gateway/processes.ts";
import { eventually } from "../support/poll.ts";
import { type Folder, freePorts, jsonOf, openFolder, runVerb } from "./kit.ts";

type Usage = {
  readonly windows: readonly { readonly window: string; readonly used: number }[];
  readonly observed?: readonly { readonly window: string; readonly used: number }[];
};

/** The folder of an operator: a configuration, a gateway by it, and the verbs that are typed there. */
class Desk {
  readonly file: string;
  readonly #listen: number;
  readonly #admin: number;
  readonly #folder: Folder;
  #gateway: RunningProcess | undefined;

  constructor(folder: Folder, [listen = 0, admin = 0]: readonly number[]) {
    this.#folder = folder;
    this.#listen = listen;
    this.#admin = admin;
    this.file = join(folder.path, "tollgate.yaml");
  }

  at(name: string): string {
    return join(this.#folder.path, name);
  }

  /** Types a verb that ends with 0, and gives the JSON of its answer. */
  async type<T = unknown>(...args: readonly string[]): Promise<T> {
    return jsonOf<T>({ out: await this.read(...args, "--json") });
  }

  async read(...args: readonly string[]): Promise<string> {
    const { status, out, err } = await runVerb([...args, "--config", this.file]);
    assert.equal(status, 0, `${args.join(" ")}: ${err}`);
    return out;
  }

  /** The ports of init are those of nobody else, on a machine of one's own. */
  async edit(change: (text: string) => string): Promise<void> {
    const text = await readFile(this.file, "utf8");
    await writeFile(this.file, change(text));
  }

  async init(backend: TestUpstream): Promise<void> {
    await this.read("init", "--upstream", backend.origin);
    const more = `admin: { listen: "127.0.0.1:${this.#admin}" }\nhistory: 400d\n`;
    await this.edit((text) => `${text.replace("8080", String(this.#listen))}${more}`);
  }

  async start(): Promise<void> {
    this.#gateway = startTollgate(["start", "--config", this.file]);
    await this.#gateway.line(({ msg }) => msg === "serving");
  }

  stop(): Promise<unknown> {
    return this.#gateway?.stop() ?? Promise.resolve();
  }

  ask(key: string): Promise<Response> {
    const headers = { Authorization: `Bearer ${key}` };
    return fetch(`http://127.0.0.1:${this.#listen}/orders`, { headers });
  }

  /** A change reaches the gateway within a second. */
  async answered(key: string, status: number): Promise<void> {
    await eventually(async () => {
      const got = await this.ask(key);
      await got.text();
      assert.equal(got.status, status);
    });
  }

  /** The log so far, in a file; all that was asked has its line. */
  async log(): Promise<string> {
    const lines = () => this.#gateway?.lines() ?? [];
    let before = -1;
    await eventually(
      () => {
        const same = lines().length === before;
        before = lines().length;
        return same;
      },
      { everyMs: 300 },
    );
    const text = lines().map((line) => `${JSON.stringify(line)}\n`);
    await writeFile(this.at("gateway.log"), text.join(""));
    return this.at("gateway.log");
  }
}

const today = () => new Date().toISOString().slice(0, 10);

it("an operator's day: from init to the audit, each question with the verb for it", async () => {
  const began = today();
  try {
    await walk();
  } catch (error) {
    // At midnight the counts of a day begin again: a walk that it falls into is walked again.
    if (today() === began) throw error;
    await walk();
  }
});

async function walk(): Promise<void> {
  await using folder = await openFolder();
  await using backend = await startTestUpstream();
  const desk = new Desk(folder, await freePorts(2));
  try {
    await desk.init(backend);
    await desk.start();
    assert.equal((await desk.type<{ status: string }>("status")).status, "ready");
    const terms = ["--env", "production", "--plan", "free", "--name", "Ada's shop"];
    const { key, account } = await desk.type<Issued>("keys", "create", ...terms);
    await desk.answered(key, 200);
    await usedUpAndRaised(desk, key, account);
    await observedAndTried(desk, key, account);
    await stoppedAndLetGo(desk, key, account);
    const last = await keysChange(desk, account);
    assert.notEqual(last, key);
    await billed(desk, account, backend);
  } finally {
    await desk.stop();
  }
}

type Issued = { readonly id: string; readonly key: string; readonly account: string };

/** Uses up the limit of a minute; the answer that refuses. */
async function usedUp(desk: Desk, key: string): Promise<Response> {
  // A minute may end meanwhile: no two minutes take so many.
  for (let i = 0; i < 130; i++) {
    const got = await desk.ask(key);
    await got.text();
    if (got.status === 429) return got;
  }
  assert.fail("a minute's limit is used up");
}

/** "Why was I limited?" The answer is the rule; the remedy a larger plan. */
async function usedUpAndRaised(desk: Desk, key: string, account: string): Promise<void> {
  const refused = await usedUp(desk, key);
  assert.equal(refused.headers.get("x-ratelimit-window"), "minute");
  const id = refused.headers.get("x-request-id") ?? "";
  const told = await desk.type<{ rule: string; account: string; code: string }>("explain", id);
  assert.deepEqual([told.account, told.code], [account, "rate_limited"]);
  assert.match(told.rule, /^The minute limit is 60 units: 60 were used/);
  // A minute that ends between two verbs is used up again.
  await eventually(async () => {
    const usage = await desk.read("usage", account);
    const [top] = await desk.type<{ account: string }[]>("usage", "--over", "80%", "--top", "1");
    const isToldByBoth = /minute +\d+ +60/.test(usage) && top?.account === account;
    if (!isToldByBoth) await usedUp(desk, key);
    assert.ok(isToldByBoth, `${usage}\n${top?.account}`);
  });
  await desk.read("accounts", "set", account, "--plan", "pro");
  await desk.answered(key, 200);
}

/** A smaller limit is watched before it counts, and tried on what was asked today. */
async function observedAndTried(desk: Desk, key: string, account: string): Promise<void> {
  const plan = "pro: { minute: 300, day: 10000 }";
  const observing = "pro: { minute: 300, day: 10000, observe: { day: 40 } }";
  await desk.edit((text) => text.replace(plan, observing));
  await desk.read("reload");
  await desk.answered(key, 200);
  const { observed } = await desk.type<Usage>("usage", account);
  assert.deepEqual(
    observed?.map(({ window }) => window),
    ["day"],
  );
  const log = await desk.log();
  assert.match(await readFile(log, "utf8"), /"observed":\["day"\]/);
  await writeFile(
    desk.at("new-plans.yaml"),
    "plans:\n  free: { minute: 60, day: 1000 }\n  pro: { minute: 300, day: 40 }\n",
  );
  const tried = await desk.type<{ accounts: { account: string; limited: number }[] }>(
    ...["plans", "try", desk.at("new-plans.yaml"), "--log", log],
  );
  const [first] = tried.accounts;
  assert.equal(first?.account, account);
  assert.ok((first?.limited ?? 0) > 0, "it would be limited by the new plan");
}

async function stoppedAndLetGo(desk: Desk, key: string, account: string): Promise<void> {
  await desk.read("bans", "add", account, "--for", "1h");
  await desk.answered(key, 429);
  const bans = await desk.type<{ account: string }[]>("bans", "list");
  assert.deepEqual(
    bans.map((ban) => ban.account),
    [account],
  );
  await desk.read("bans", "lift", account);
  await desk.answered(key, 200);
  await desk.read("accounts", "suspend", account, "--reason", "unpaid");
  await desk.answered(key, 403);
  await desk.read("accounts", "resume", account);
  await desk.answered(key, 200);
}

/** Rotated without a grace, and revoked in the end; gives the last key. */
async function keysChange(desk: Desk, account: string): Promise<string> {
  const [old] = await desk.type<{ id: string }[]>("keys", "list");
  const next = await desk.type<Issued>("keys", "rotate", old?.id ?? "", "--grace", "1s");
  await desk.answered(next.key, 200);
  await desk.read("keys", "revoke", next.id);
  await desk.answered(next.key, 401);
  const shown = await desk.type<{ keys: string[] }>("accounts", "show", account);
  await eventually(async () => {
    const { keys } = await desk.type<{ keys: string[] }>("accounts", "show", account);
    assert.deepEqual(keys, [], JSON.stringify(shown));
  });
  return next.key;
}

/** The bill is what the store counts, what the log charged, and what the backend has seen. */
async function billed(desk: Desk, account: string, backend: TestUpstream): Promise<void> {
  const log = await desk.log();
  const lines = (await readFile(log, "utf8")).trim().split("\n");
  const charged = lines
    .map((line) => JSON.parse(line) as { account?: string; charged?: number })
    .filter((line) => line.account === account)
    .reduce((sum, line) => sum + (line.charged ?? 0), 0);
  assert.equal(charged, backend.seen.length);
  const month = new Date().toISOString().slice(0, 7);
  const bill = (await desk.read("usage", "--month", month, "--csv")).trim().split(/\r?\n/);
  const [names = "", ...rows] = bill.map((row) => row.split(","));
  const name = "account,environment,plan,day,admitted,units,refused";
  assert.equal(String(names), name, bill.join("\n"));
  const units = rows.reduce((sum, row) => sum + (row[0] === account ? Number(row[5]) : 0), 0);
  assert.equal(units, charged, bill.join("\n"));
  const balance = await desk.type<{ charged: number; drift: unknown[] }>("audit", "--log", log);
  assert.deepEqual([balance.charged, balance.drift], [charged, []]);
}
