import assert from "node:assert/strict";
import { once } from "node:events";
import { onTestFinished, test } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { KEY, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { openClient, sendRequest } from "../support/wire/client.ts";
import { openTcpProxy } from "../support/wire/tcp-proxy.ts";

test("a request within the longest drain of another environment is answered, not hung up without a line", async () => {
  await using backend = await startTestUpstream(async (_seen, response) => {
    // After the end of either environment's own drain, and 1.6 s before that of the longest of both.
    await new Promise((resolve) => setTimeout(resolve, 6_400));
    response.end("late");
  });
  const environment = (keyTag: string, drainDelay: string, drain: string) => ({
    listen: "127.0.0.1:0",
    basePath: "/v1",
    keyTag,
    upstreams: [backend.origin],
    limits: { drainDelay, drain },
  });
  // Neither has both the long delay and the long drain: one shutdown serves them both.
  const environments = {
    production: environment("live", "0s", "4s"),
    staging: environment("test", "4s", "100ms"),
  };
  await using served = await spawnGateway({
    upstreams: [backend.origin],
    config: { environments },
  });
  const asked = sendRequest(served.port, { key: KEY }).catch(() => "hung up");
  await eventually(() => assert.equal(backend.seen.length, 1));
  served.running.child.kill("SIGTERM");
  const answered = await asked;
  assert.ok(typeof answered === "object", String(answered));
  assert.equal(answered.status, 200);
  assert.equal((await served.running.exited).code, 0);
  assert.deepEqual(
    served.lines.map(({ status, charged, forwards }) => [status, charged, forwards]),
    [[200, 1, 1]],
  );
});

/** A backend whose answers begin, and do not end. */
function startEndlessUpstream() {
  return startTestUpstream((_seen, response) => {
    response.writeHead(200, { "Content-Type": "text/plain" }).write("begun");
  });
}

/** A gateway that drains for a tenth of a second. */
function spawnDrainingSoon(origin: string, more: Readonly<Record<string, unknown>> = {}) {
  const environment = {
    listen: "127.0.0.1:0",
    basePath: "/v1",
    keyTag: "live",
    upstreams: [origin],
    limits: { drain: "100ms" },
  };
  return spawnGateway({
    upstreams: [origin],
    config: { environments: { production: environment }, ...more },
  });
}

test("a request that the end of the drain cuts is told so in its line, and is not blamed on its client", async () => {
  await using backend = await startEndlessUpstream();
  await using served = await spawnDrainingSoon(backend.origin);
  const asked = sendRequest(served.port, { key: KEY }).catch(() => "cut");
  await eventually(() => assert.equal(backend.seen.length, 1));
  served.running.child.kill("SIGTERM");
  await asked;
  await served.running.exited;
  assert.deepEqual(
    served.lines.map(({ why }) => why),
    ["the gateway is going away"],
  );
});

test("an answer that the end of the drain cuts never looks complete to an HTTP/1.0 client", async () => {
  await using backend = await startEndlessUpstream();
  await using served = await spawnDrainingSoon(backend.origin);
  await using client = await openClient(served.port);
  const failed = once(client.socket, "error");
  const ended = once(client.socket, "end").then(() => ["a plain end is the end of the body"]);
  const data = once(client.socket, "data");
  client.write(`GET /v1/pets HTTP/1.0\r\nHost: gw.test\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
  await data;
  served.running.child.kill("SIGTERM");
  assert.match(String(await Promise.race([failed, ended])), /ECONNRESET/);
  assert.equal((await served.running.exited).code, 0);
});

test("a gateway that drains reloads no more, and a fault of its own does not begin its end again", async () => {
  let answer = () => {};
  await using backend = await startTestUpstream((_seen, response) => {
    answer = () => void response.end("late");
  });
  const fault = `process.on("SIGUSR2", () => { throw new Error("induced"); });`;
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(fault)}`;
  const run = { env: { NODE_OPTIONS } };
  await using served = await spawnGateway({ upstreams: [backend.origin], run });
  const asked = sendRequest(served.port, { key: KEY });
  await eventually(() => assert.equal(backend.seen.length, 1));
  served.running.child.kill("SIGTERM");
  const draining = await served.running.line(({ msg }) => msg === "draining");
  served.running.child.kill("SIGHUP");
  await eventually(() => Date.now() > Number(draining.time) + 200);
  served.running.child.kill("SIGUSR2");
  const failed = await served.running.line(({ msg }) => msg === "unexpected_failure");
  answer();
  assert.equal((await asked).status, 200);
  assert.equal((await served.running.exited).code, 0);
  const said = served.running.lines().map(({ msg, kind }) => kind ?? msg);
  const wanted = ["draining", "unexpected_failure", "request", "stopped"];
  assert.deepEqual(said.slice(said.indexOf("draining")), wanted);
  const afterMs = Number(served.running.lines().at(-1)?.afterMs);
  assert.ok(afterMs >= Number(failed.time) - Number(draining.time) - 20, `${afterMs} ms`);
});

test("a drain that ends at its deadline while the store is slow tells the units that are lost with it", async () => {
  await using backend = await startEndlessUpstream();
  const redis = await startRedis();
  onTestFinished(() => redis.close());
  await using proxy = await openTcpProxy(redis);
  const store = `redis://127.0.0.1:${proxy.port}`;
  await using served = await spawnDrainingSoon(backend.origin, { store, storeTimeout: "50ms" });
  // Slower than each of the last steps waits, and never so silent that the connection is given up.
  proxy.behave({ answerLatencyMs: 700 });
  const asked = Array.from({ length: 20 }, () => {
    return sendRequest(served.port, { key: KEY }).catch(() => "cut");
  });
  await served.running.line(({ kind }) => kind === "store_away");
  asked.push(sendRequest(served.port, { key: KEY }).catch(() => "cut"));
  await eventually(() => assert.equal(backend.seen.length, 21));
  served.running.child.kill("SIGTERM");
  await Promise.all(asked);
  assert.equal((await served.running.exited).code, 0);
  assert.equal(
    served.lines.reduce((sum, { charged }) => sum + charged, 0),
    21,
  );
  const said = served.running.lines().filter(({ msg }) => msg !== "request");
  const lost = said.filter(({ msg }) => msg === "charges_lost");
  const client = await redis.client();
  const [account = ""] = await client.keys("tg:{*}:production:vectors");
  const month = await client.hget(account, "M");
  const counted = Number(month?.split(" ")[1] ?? 0);
  const told = lost.reduce((sum, { units }) => sum + Number(units), 0);
  // A call that was sent in time charges them after all, and its answer is too late to say so.
  assert.ok(counted <= 21 && counted + told >= 21, `${counted} and ${told}`);
  const { msg, gateway } = said.at(-1) ?? {};
  assert.deepEqual([lost.length, msg], [1, "stopped"]);
  assert.equal(typeof gateway, "string");
  assert.equal(lost[0]?.gateway, gateway);
});
