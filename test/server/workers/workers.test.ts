import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, it, onTestFinished } from "vitest";
import { runVerb } from "../../cli/kit.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { runTollgate } from "../../support/gateway/processes.ts";
import { openCollector } from "../../support/otlp-collector.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { get, issueKeys, openCrew, openFolder, startLoad } from "./kit.ts";

const PATH = "/v1/animals";
let redis: TestRedis;
let keys: string[];
beforeAll(async () => {
  redis = await startRedis();
  keys = await issueKeys(redis, 120);
});
afterAll(() => redis.close());

function nextKey(): string {
  return keys.pop() ?? assert.fail("more keys are wanted than were issued");
}

describe("a gateway of several processes", () => {
  it("admits exactly the limit of 500 requests at once, and its counts are the sum", async () => {
    // Where Redis gets no processor for 50 ms nobody is to decide in its place: such a round is void.
    await using crew = await openCrew(redis, { workers: 3, limit: 200, onStoreFailure: "deny" });
    const client = await redis.client();
    const gateways = () => client.zcard("tg:{0}:gateways");
    await eventually(async () => assert.equal(await gateways(), 3, "the one that watches is none"));
    let [rounds, exact, admitted] = [0, 0, 0];
    while (exact < 3) {
      rounds += 1;
      const key = nextKey();
      const all = Array.from({ length: 500 }, () => get(crew.url + PATH, key));
      const statuses = (await Promise.all(all)).map(({ status }) => status);
      const of = (wanted: number) => statuses.filter((status) => status === wanted).length;
      assert.equal(of(200) + of(429) + of(503), 500);
      assert.ok(of(200) <= 200, `${of(200)} were admitted`);
      admitted += of(200);
      if (of(503) > 0) continue;
      assert.equal(of(200), 200);
      exact += 1;
    }
    const requests = 500 * rounds;
    assert.equal(crew.backend.seen.length, admitted);
    assert.equal(await crew.metric("tollgate_http_requests_total"), requests);
    assert.equal(await crew.metric("tollgate_charged_total"), admitted);
    assert.equal(await crew.metric("tollgate_http_request_duration_seconds_count"), requests);
    await eventually(() => {
      const lines = crew.gateway.lines().filter(({ msg }) => msg === "request");
      assert.equal(lines.length, requests, "each request has its whole line");
      assert.equal(new Set(lines.map(({ id }) => id)).size, requests);
    });
    assert.equal(await crew.metric("tollgate_workers"), 3);
    await crew.gateway.stop();
    assert.equal(await gateways(), 0);
  });

  it("drains all of them under load and loses no request that it took", async () => {
    await using crew = await openCrew(redis, {}, async (_seen, response, _request, whole) => {
      await whole;
      setTimeout(() => response.end("ok"), 20);
    });
    const load = startLoad(crew.url + PATH, nextKey(), 24);
    await eventually(() => load.outcomes.length > 100);
    crew.gateway.child.kill("SIGTERM");
    const { code } = await crew.gateway.exited;
    assert.equal(code, 0);
    const outcomes = await load.end();
    const answered = outcomes.filter(({ status }) => status === 200).length;
    assert.equal(answered, crew.backend.seen.length);
    const lines = crew.gateway.lines().filter(({ msg }) => msg === "request");
    assert.equal(lines.filter(({ forwards }) => forwards === 1).length, answered);
    const refused = lines.filter(({ status }) => status === 503);
    assert.equal(refused.length, outcomes.filter(({ status }) => status === 503).length);
  });

  it("ends with its port in use, in one line that names port and setting, and leaves no file", async () => {
    await using taken = await startTestUpstream();
    await using folder = await openFolder(redis, "http://127.0.0.1:1");
    const listen = new URL(taken.origin).host;
    await folder.write({ listen });
    const temporary = await mkdtemp(join(tmpdir(), "tollgate-left-"));
    onTestFinished(() => rm(temporary, { recursive: true }));
    const code = `import cluster from "node:cluster";
      if (cluster.isWorker) process.stdout.write("tries\\n");`;
    const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(code)}`;
    const env = { TMPDIR: temporary, NODE_COMPILE_CACHE: "", NODE_OPTIONS };
    const started = ["start", "--config", folder.file];
    const { code: status, stdout, stderr } = await runTollgate(started, { env });
    assert.equal(status, 1);
    assert.equal(stdout, "tries\n", "one for all, and none is lost that never served");
    assert.deepEqual(await readdir(temporary), []);
    assert.equal(
      stderr,
      `Cannot listen on ${listen} (environments.production.listen): the port is in use already. Stop what listens there or change environments.production.listen\n`,
    );
  });
});

describe("the workers of a gateway", () => {
  it("leave signals to the process that watches, and end with it when it is killed", async () => {
    await using crew = await openCrew(redis, {}, async (_seen, response, _request, whole) => {
      await whole;
      setTimeout(() => response.end("ok"), 1_000);
    });
    for (const pid of crew.pids()) {
      process.kill(pid, "SIGTERM");
      process.kill(pid, "SIGINT");
      process.kill(pid, "SIGHUP");
    }
    const slow = get(crew.url + PATH, nextKey());
    await eventually(() => crew.backend.seen.length === 1);
    // Resolves when all have closed the output that they share with it.
    await crew.gateway.kill();
    assert.equal((await slow).status, 200, "what was under way is answered first");
    const { code } = await get(crew.url + PATH, keys[0] ?? "");
    assert.equal(code, "ECONNREFUSED");
  });

  it("end at once with a second signal", async () => {
    await using crew = await openCrew(redis, { drain: "60s" }, () => {});
    const slow = get(crew.url + PATH, nextKey());
    await eventually(() => crew.backend.seen.length === 1);
    crew.gateway.child.kill("SIGTERM");
    await crew.gateway.line(({ msg }) => msg === "draining");
    await eventually(async () => (await crew.ready()).checks.draining?.ok === false);
    crew.gateway.child.kill("SIGINT");
    assert.equal((await crew.gateway.exited).code, 130);
    assert.equal((await slow).status, 0);
    const cut = crew.gateway.lines().filter(({ msg }) => msg === "request");
    assert.deepEqual(
      cut.map(({ status, charged }) => [status, charged]),
      [[499, 1]],
    );
  });

  it("are no verb for people", async () => {
    const { status, err } = await runVerb(["worker"]);
    assert.equal(status, 64);
    assert.match(err, /^Unknown verb "worker"/);
  });

  it("are no verb for a program that starts Tollgate with a channel of its own", async () => {
    const main = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));
    const child = fork(main, ["worker"], { stdio: ["ignore", "ignore", "pipe", "ipc"] });
    let said = "";
    child.stderr?.setEncoding("utf8").on("data", (text) => {
      said += text;
    });
    const [status] = await once(child, "close");
    assert.deepEqual(
      [status, said],
      [64, "The verb worker is for the gateway itself: use start\n"],
    );
  });
});

describe("the workers of a gateway that goes on", () => {
  it("explain a refusal and a ban that any one of them made", async () => {
    await using crew = await openCrew(redis);
    const ids = new Set<string>();
    for (let i = 0; i < 20; i++) {
      const answer = await fetch(crew.url + PATH, { headers: { Connection: "close" } });
      assert.equal(answer.status, 401);
      ids.add(answer.headers.get("x-request-id") ?? "");
      await answer.text();
    }
    for (const id of ids) {
      await eventually(async () => {
        const told = await fetch(`${crew.adminUrl}/api/explain/${id}`);
        const { code, rule } = (await told.json()) as { code: string; rule: string };
        assert.deepEqual([told.status, code], [200, "key_missing"], rule);
      });
    }
    assert.equal((await fetch(`${crew.adminUrl}/api/explain/none`)).status, 404);
  });

  it("serve on while nobody reads the log, and what is dropped is counted", async () => {
    const key = nextKey();
    await using crew = await openCrew(redis);
    crew.gateway.child.stdout?.pause();
    const path = `${PATH}/${"a".repeat(7_000)}`;
    const load = startLoad(crew.url + path, key, 8);
    await eventually(async () => (await crew.metric("tollgate_log_dropped_total")) > 100, {
      withinMs: 60_000,
      everyMs: 200,
    });
    const outcomes = await load.end();
    assert.deepEqual([...new Set(outcomes.map(({ status }) => status))], [200]);
    crew.gateway.child.kill("SIGTERM");
    await eventually(async () => (await get(crew.url + PATH, key)).code === "ECONNREFUSED");
    crew.gateway.child.stdout?.resume();
    assert.equal((await crew.gateway.exited).code, 0);
  });
});

describe("events and telemetry of several processes", () => {
  it("tell once that the store is away and back, and each process its own spans", async () => {
    await using collector = await openCollector();
    await using own = await openRedisOfTheirOwn();
    const telemetry = { otlp: collector.origin, sample: 1 };
    // Issued first: workers that run learn of a key within a second, and refuse it until then.
    const [key = ""] = await issueKeys(own.redis, 1);
    await using crew = await openCrew(own.redis, { workers: 2, telemetry });
    const events = (kind: string) => crew.gateway.lines().filter((line) => line.kind === kind);

    // Each connection goes to whichever process takes it: until both have served.
    await eventually(
      async () => {
        const answer = await fetch(`${crew.url}/x`, {
          headers: { authorization: `Bearer ${key}`, connection: "close" },
        });
        await answer.arrayBuffer();
        assert.equal(new Set(spans().map(({ resource }) => resource["tollgate.worker"])).size, 2);
      },
      { withinMs: 60_000, everyMs: 50 },
    );
    function spans() {
      return collector.spans.filter(({ kind }) => kind === "SERVER");
    }
    const processes = new Set(spans().map(({ resource }) => resource["service.instance.id"]));
    assert.equal(processes.size, 2);

    own.redis.stop();
    await eventually(() => assert.equal(events("store_away").length, 1), { withinMs: 60_000 });
    const away = async () => (await crew.ready()).checks.store?.why ?? "";
    await eventually(async () => assert.match(await away(), /^(?!.*of 2 workers).+$/), {
      withinMs: 60_000,
    });
    own.redis.cont();
    await eventually(() => assert.equal(events("store_back").length, 1), { withinMs: 60_000 });
    await eventually(async () => assert.equal((await crew.ready()).status, 200), {
      withinMs: 60_000,
    });
    assert.deepEqual([events("store_away").length, events("store_back").length], [1, 1]);

    await crew.gateway.stop();
    const charged = collector.points.filter(({ metric }) => metric === "tollgate.charged");
    const tellers = new Set(charged.map(({ resource }) => resource["tollgate.worker"]));
    assert.deepEqual([...tellers], [undefined], "the sums are told by the process that watches");
    const lines = crew.gateway.lines().filter(({ msg }) => msg === "request");
    const units = lines.reduce((sum, line) => sum + Number(line.charged), 0);
    assert.ok(units > 0);
    assert.equal(charged.at(-1)?.value, units);
  });
});

/** A Redis that this test alone stops. */
async function openRedisOfTheirOwn() {
  const redis = await startRedis();
  return { redis, [Symbol.asyncDispose]: () => redis.close() };
}
