import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { it } from "vitest";
import { DAY_MS, dayOf, formatDay } from "../../src/core/quota/days.ts";
import { createMemoryQuotaStore } from "../../src/stores/quotas/memory/create-memory-quota-store.ts";
import { freePorts, openFolder, runVerb, writeConfig } from "../cli/kit.ts";
import { startProgram, startTollgate } from "../support/gateway/processes.ts";
import { eventually } from "../support/poll.ts";
import { SECRET } from "../support/webhook-receiver.ts";
import { blocksOf } from "./markdown.ts";

/** The first day of the two before today, which is closed at every hour of today. */
const DAY = dayOf(Date.now()) - 2;

/** The program of the page, in this folder. */
async function startReceiver(
  folder: string,
  env: Readonly<Record<string, string>>,
  ...args: readonly string[]
) {
  const program = blocksOf("docs/billing.md").find(({ language }) => language === "js");
  await writeFile(join(folder, "receiver.mjs"), program?.text ?? "");
  const [port = 0] = await freePorts(1);
  const run = { cwd: folder, env: { PORT: String(port), WEBHOOK_SECRET: SECRET, ...env } };
  const receiver = startProgram(process.execPath, ["receiver.mjs", ...args], run);
  await receiver.says(`listening on ${port}`);
  return { receiver, port };
}

/** Answers each event with `statusOf` its customer. `accepted` has the customers of 200. */
async function startBiller(statusOf: (customer: string) => number) {
  const accepted: string[] = [];
  const identifiers: unknown[] = [];
  let tries = 0;
  const server = createServer(async (request, response) => {
    // A receiver that is ended may be in the middle of a question.
    const body = await text(request).catch(() => undefined);
    if (body === undefined) return;
    const isForm = request.headers["content-type"] === "application/x-www-form-urlencoded";
    const form = new URLSearchParams(body);
    const customer = isForm ? form.get("payload[stripe_customer_id]") : JSON.parse(body).subject;
    const status = statusOf(String(customer));
    tries += 1;
    identifiers.push(form.get("identifier"));
    if (status === 200) accepted.push(String(customer));
    response.writeHead(status).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    ...{ accepted, identifiers },
    tries: () => tries,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.dispose]: () => void server.close(),
  };
}

async function tell(port: number, ...accounts: readonly string[]): Promise<void> {
  const events = accounts.map((account) => usageEvent(account));
  assert.equal(await post(port, JSON.stringify(events)), 204);
}

function usageEvent(account: string, storePrefix = "tg") {
  return {
    ...{ source: `/tollgate/${storePrefix}`, id: `production:${account}:2026-10-14` },
    ...{ subject: account, time: "2026-10-14T23:59:59Z", data: { account, units: 1 } },
  };
}

/** Sends a signed message. Returns the status. */
async function post(port: number, body: string): Promise<number> {
  const [id, now] = [randomUUID(), new Date()];
  const headers = {
    ...{ "content-type": "application/cloudevents-batch+json", "webhook-id": id },
    "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
    "webhook-signature": new Webhook(SECRET).sign(id, now, body),
  };
  return (await fetch(`http://127.0.0.1:${port}`, { method: "POST", headers, body })).status;
}

it("docs/billing.md: its receiver outlives messages that are cut, too long or no JSON", async () => {
  await using folder = await openFolder();
  const { receiver, port } = await startReceiver(folder.path, {});
  await using _receiver = receiver;
  const cut = connect(port, "127.0.0.1");
  cut.end("POST / HTTP/1.1\r\nHost: billing.test\r\nContent-Length: 100\r\n\r\n[{}");
  await once(cut.resume(), "close");
  // The answers to two more show that the receiver has met the end of the first.
  assert.equal(await post(port, `[${" ".repeat(1024 ** 2 - 2)}]`), 204);
  assert.equal(await post(port, `[${" ".repeat(1024 ** 2 - 1)}]`), 413);
  assert.equal(await post(port, '[{"id":"lost"},'), 500);
  await receiver.says("aborted");
  await tell(port, "acme");
  await eventually(() => assert.equal(receiver.lines().length, 2));
  assert.deepEqual(
    receiver.lines().map((line) => [Object.keys(line), /acme/.test(JSON.stringify(line))]),
    [
      [["stripe"], true],
      [["openMeter"], true],
    ],
  );
});

it("docs/billing.md: without --send its receiver prints each event once, and still sends it later", async () => {
  await using folder = await openFolder();
  using stripe = await startBiller(() => 200);
  const env = { STRIPE_URL: stripe.url, STRIPE_KEY: "sk" };
  {
    const { receiver, port } = await startReceiver(folder.path, env);
    await using _receiver = receiver;
    for (const account of ["acme", "beta", "gamma"]) await tell(port, account);
    await eventually(() =>
      assert.match(JSON.stringify(receiver.lines().at(-1)), /openMeter.*gamma/),
    );
    const printed = receiver
      .lines()
      .map((line) => /acme|beta|gamma/.exec(JSON.stringify(line))?.[0]);
    assert.deepEqual(printed.toSorted(), ["acme", "acme", "beta", "beta", "gamma", "gamma"]);
  }
  const { receiver } = await startReceiver(folder.path, env, "--send");
  await using _receiver = receiver;
  await eventually(() => assert.deepEqual(stripe.accepted, ["acme", "beta", "gamma"]));
});

it("docs/billing.md: an event that one refuses holds up no other, and goes to nobody twice", async () => {
  await using folder = await openFolder();
  let refused: string | undefined = "gone";
  let isAway = false;
  using stripe = await startBiller((id) => (isAway ? 503 : id === refused ? 400 : 200));
  using openMeter = await startBiller(() => 200);
  const env = { STRIPE_URL: stripe.url, STRIPE_KEY: "sk", OPENMETER_URL: openMeter.url };
  const { receiver, port } = await startReceiver(folder.path, env, "--send");
  await using _receiver = receiver;
  await tell(port, "gone", "acme", "beta");
  await eventually(() => assert.deepEqual(openMeter.accepted, ["gone", "acme", "beta"]));
  assert.deepEqual(stripe.accepted, ["acme", "beta"]);
  await receiver.says("/tollgate/tg production:gone:2026-10-14 is not billed: stripe answered 400");

  isAway = true;
  await tell(port, "gamma");
  await eventually(() => assert.equal(openMeter.accepted.length, 4));
  assert.equal(stripe.tries(), 4, "one that is away is asked once a message");
  [isAway, refused] = [false, undefined];
  await tell(port, "delta");
  await eventually(() => assert.equal(openMeter.accepted.length, 5));
  assert.deepEqual(stripe.accepted, ["acme", "beta", "gone", "gamma", "delta"]);
  assert.deepEqual(openMeter.accepted, ["gone", "acme", "beta", "gamma", "delta"]);
});

it("docs/billing.md: the usage of an account in two stores is billed twice, of one store once, also by the table of an earlier form", async () => {
  await using folder = await openFolder();
  using stripe = await startBiller(() => 200);
  const table = new DatabaseSync(join(folder.path, "usage.db"));
  table.exec(
    "CREATE TABLE usage (id TEXT, target TEXT, event TEXT, billed INTEGER, PRIMARY KEY (id, target))",
  );
  const add = table.prepare("INSERT INTO usage VALUES (?, 'stripe', ?, ?)");
  const [billed, waiting] = [usageEvent("billed"), usageEvent("waiting")];
  add.run(billed.id, JSON.stringify(billed), 1);
  add.run(waiting.id, JSON.stringify(waiting), 0);
  table.close();
  const env = { STRIPE_URL: stripe.url, STRIPE_KEY: "sk" };
  const { receiver, port } = await startReceiver(folder.path, env, "--send");
  await using _receiver = receiver;
  await eventually(() => assert.deepEqual(stripe.accepted, ["waiting"]));
  const events = [
    billed,
    waiting,
    usageEvent("acme"),
    usageEvent("acme", "eu"),
    usageEvent("acme"),
  ];
  assert.equal(await post(port, JSON.stringify(events)), 204);
  await eventually(() => assert.deepEqual(stripe.accepted, ["waiting", "acme", "acme"]));
  assert.equal(await post(port, JSON.stringify([...events, usageEvent("last")])), 204);
  await eventually(() => assert.equal(stripe.accepted.at(-1), "last"));
  assert.deepEqual(stripe.accepted, ["waiting", "acme", "acme", "last"]);
  assert.equal(new Set(stripe.identifiers).size, 4);
});

it("docs/billing.md: its receiver makes meter events of Stripe and OpenMeter, each once", async () => {
  await using folder = await openFolder();
  const env = { CUSTOMERS: JSON.stringify({ acme: "cus_NciAYcXfLnqBoz" }) };
  const { receiver, port } = await startReceiver(folder.path, env);
  await using _receiver = receiver;
  const more = `history: 400d\nevents: { url: "http://127.0.0.1:${port}/usage", secret: "${SECRET}" }\n`;
  const file = await writeConfig(folder, { more });
  const args = ["--env", "production", "--plan", "pro", "--account", "acme", "--config", file];
  assert.equal((await runVerb(["keys", "create", ...args])).status, 0);
  const stateFile = join(folder.path, "data/state.json");
  const now = () => DAY * DAY_MS + DAY_MS / 2;
  const store = await createMemoryQuotaStore({
    ...{ stateFile, now, report: () => {}, historyMs: 400 * DAY_MS },
  });
  const quotaRequest = {
    limits: [{ window: "month", limit: 100 }] as const,
    bans: undefined,
    requests: 1,
  };
  const accountRef = { environment: "production", account: "acme" };
  for (const cost of [3, 4]) await store.charge(accountRef, { ...quotaRequest, cost, plan: "pro" });
  await store.close();

  await using gateway = startTollgate(["start", "--config", file]);
  await gateway.line(({ kind }) => kind === "usage", 60_000);
  const line = await eventually(() => {
    assert.equal(receiver.lines().length, 2);
    return Object.assign({}, ...receiver.lines()) as Record<string, unknown>;
  });
  const day = formatDay(DAY);
  assert.deepEqual(Object.fromEntries(new URLSearchParams(String(line.stripe))), {
    event_name: "api_units",
    "payload[stripe_customer_id]": "cus_NciAYcXfLnqBoz",
    "payload[value]": "7",
    identifier: createHash("sha256").update(`/tollgate/tg production:acme:${day}`).digest("hex"),
    timestamp: String(((DAY + 1) * DAY_MS) / 1000 - 1),
  });
  assert.deepEqual(JSON.parse(String(line.openMeter)), {
    ...{ specversion: "1.0", type: "tollgate.usage", source: "/tollgate/tg", subject: "acme" },
    ...{ id: `production:acme:${day}`, time: `${day}T23:59:59Z` },
    datacontenttype: "application/json",
    data: { ...accountRef, plan: "pro", day, admitted: 2, units: 7, refused: 0 },
  });
  await gateway.stop();
});
