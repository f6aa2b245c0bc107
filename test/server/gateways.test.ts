import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { GatewayReport } from "../../src/telemetry/gateway-status.ts";
import type { Told } from "../cli/audit-kit.ts";
import { jsonOf, runVerb } from "../cli/kit.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { type RunningProcess, runTollgate, startTollgate } from "../support/gateway/processes.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";
import { type Folder, get, issueKeys, openFolder } from "./workers/kit.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

type Started = {
  readonly gateway: RunningProcess;
  readonly url: string;
  readonly adminUrl: string;
};

async function start({ file }: Folder): Promise<Started> {
  const gateway = startTollgate(["start", "--config", file]);
  const { urls, admin } = (await gateway.line(({ msg }) => msg === "serving")) as {
    urls: Record<string, string>;
    admin: string;
  };
  return { gateway, url: urls.production ?? "", adminUrl: admin };
}

async function list({ adminUrl }: Started): Promise<GatewayReport[]> {
  const response = await fetch(`${adminUrl}/api/gateways`);
  assert.equal(response.status, 200);
  return (await response.json()) as GatewayReport[];
}

/** Waits until the list has gateways of just these states, in whatever order; gives it. */
function listed(from: Started, ...states: GatewayReport["state"][]): Promise<GatewayReport[]> {
  return eventually(async () => {
    const found = await list(from);
    assert.deepEqual(found.map(({ state }) => state).sort(), states.toSorted());
    return found;
  });
}

async function stopped(all: readonly Started[]): Promise<void> {
  for (const { gateway } of all) await gateway.stop();
}

/** Audits the lines of the crew but for one of a charged request, behind the lines of another gateway. */
async function auditedWithout(
  { gateway, adminUrl }: Started,
  { file }: Folder,
  before: readonly object[],
): Promise<[status: number, told: string | undefined]> {
  const lines = await eventually(() => {
    const charged = gateway.lines().filter((line) => line.charged === 1);
    assert.equal(charged.length, 10);
    return gateway.lines().filter((line) => line !== charged[0]);
  });
  // The account is no older than the logs, however long the crew took to start.
  const time = Number(lines[0]?.time) - 60_000;
  const log = `${file}.log`;
  const all = [...before.map((line) => ({ time, ...line })), ...lines];
  await writeFile(log, all.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const asked = ["audit", "--log", log, "--config", file, "--admin", adminUrl, "--json"];
  const said = await runVerb(asked);
  const { drift, explained } = jsonOf<Told>(said);
  const told = [...drift.map((one) => `drift of ${one.drift}`), ...explained.map(({ why }) => why)];
  return [said.status, told.join().split(" at ", 1)[0]];
}

describe("the gateways that share a Redis", () => {
  it("list each other, three of them through a kill and a rolling restart", async () => {
    await (await redis.client()).flushall(); // An earlier try left its gateways there.
    await using folder = await openFolder(redis, "http://127.0.0.1:9");
    await folder.write({ workers: 1 });
    const running = [await start(folder), await start(folder), await start(folder)];
    try {
      const [first, second, third] = running as [Started, Started, Started];
      const all = await listed(first, "ready", "ready", "ready");
      assert.deepEqual(
        all.flatMap(({ differs }) => differs),
        [],
      );
      assert.equal(all.filter(({ self }) => self).length, 1);
      const { name: killed } = (await list(third)).find(({ self }) => self) as GatewayReport;

      const killedMs = performance.now();
      await third.gateway.kill();
      await eventually(
        async () => {
          const dead = (await list(first)).find(({ name }) => name === killed);
          assert.equal(dead?.state, "silent");
        },
        { withinMs: 5_000 },
      );
      assert.ok(performance.now() - killedMs < 5_000, "within 5 s");

      // One after the other takes the new configuration; the odd one out is marked meanwhile.
      running[2] = await start(folder);
      await using next = await openFolder(redis, "http://127.0.0.1:9");
      await next.write({ workers: 1, limit: 7 });
      await second.gateway.stop();
      running[1] = await start(next);
      const mixed = await listed(first, "ready", "ready", "ready", "silent");
      const odd = mixed.filter(({ differs, state }) => differs.length > 0 && state === "ready");
      const { name: renewed } = (await list(running[1])).find(({ self }) => self) as GatewayReport;
      assert.deepEqual(
        odd.map(({ name, differs }) => [name, differs]),
        [[renewed, ["config"]]],
      );
      for (const i of [0, 2]) {
        await running[i]?.gateway.stop();
        running[i] = await start(next);
      }
      const renewedAll = await listed(running[0] as Started, "ready", "ready", "ready", "silent");
      const speaking = renewedAll.filter(({ state }) => state === "ready");
      assert.deepEqual(
        speaking.flatMap(({ differs }) => differs),
        [],
      );
    } finally {
      await stopped(running);
    }
  });

  it("tell their rates, one of several processes for all of them, leave the list as they end, and are one each to an audit", async () => {
    const [key = ""] = await issueKeys(redis, 1);
    await using folder = await openFolder(redis, "http://127.0.0.1:9");
    await folder.write({ workers: 2 });
    const crew = await start(folder);
    await folder.write({ workers: 1 });
    const single = await start(folder);
    try {
      const self = async (of: Started) => (await list(of)).find((one) => one.self);
      await eventually(async () => assert.equal((await self(crew))?.state, "ready"));
      for (let i = 0; i < 20; i++) await get(`${crew.url}/v1/animals`, i % 2 === 0 ? key : "none");
      await eventually(async () => {
        const told = await self(crew);
        assert.ok((told?.requestsPerSecond ?? 0) >= 2, JSON.stringify(told));
        assert.ok((told?.refusalsPerSecond ?? 0) >= 1, JSON.stringify(told));
        assert.ok((told?.storeMs ?? -1) >= 0);
      });
      const { name } = (await self(single)) as GatewayReport;
      const crewName = (await self(crew))?.name;
      assert.equal((await self(single))?.requestsPerSecond, 0, "the others' are not its own");
      await single.gateway.stop();
      await eventually(async () => {
        assert.ok(!(await list(crew)).some((one) => one.name === name), "left the list by itself");
      });
      const killed = "1 unit more: a gateway ended without a last line";
      assert.deepEqual(await auditedWithout(crew, folder, [{ msg: "serving" }]), [0, killed]);
      const named = single.gateway
        .lines()
        .filter(({ msg }) => /^(serving|stopped)$/.test(`${msg}`));
      assert.deepEqual(
        named.map(({ msg, gateway }) => [msg, gateway]),
        [
          ["serving", name],
          ["stopped", name],
        ],
      );
      const another = { msg: "serving", gateway: name };
      assert.deepEqual(await auditedWithout(crew, folder, [another]), [0, killed]);
      const own = { msg: "serving", gateway: crewName };
      assert.deepEqual(await auditedWithout(crew, folder, [own]), [1, "drift of 1"], "it runs");
      const none = { msg: "config_warning" };
      assert.deepEqual(await auditedWithout(crew, folder, [none]), [1, "drift of 1"]);
    } finally {
      await stopped([crew, single]);
    }
  });

  it("are told on the command line as a table and as JSON, with 1 where one is silent", async () => {
    const client = await redis.client();
    await client.del("cli:{0}:status"); // An earlier try left its gateways there.
    await using house = await startTestGateway({
      config: { store: redis.url, storePrefix: "cli" },
    });
    const status = (...more: string[]) => {
      return runTollgate(["status", "--all", "--admin", house.adminUrl, ...more]);
    };
    await eventually(async () => assert.equal(await client.hlen("cli:{0}:status"), 1));
    const alone = await status();
    assert.equal(alone.code, 0, alone.stderr);
    assert.match(alone.stdout, /^gateway +state +version +config +started +requests\/s/);
    assert.match(
      alone.stdout,
      /\n1 gateway, 0\.0 requests\/s, 0\.0 refusals\/s; \* answers here\n$/,
    );

    const [own] = JSON.parse((await status("--json")).stdout) as GatewayReport[];
    const { age: _, self: __, differs: ___, ...told } = own as GatewayReport;
    const [seconds] = await client.time();
    const old = { ...told, name: "zz-dead", version: "0.0.1", config: "f".repeat(64) };
    const atMs = (Number(seconds) - 60) * 1_000;
    await client.hset("cli:{0}:status", "zz-dead", `${atMs} ${JSON.stringify(old)}`);
    await client.hset("cli:{0}:status", "zz-forgotten", `${atMs - 600_000} ${JSON.stringify(old)}`);
    const { code, stdout } = await status();
    assert.equal(code, 1);
    assert.match(
      stdout,
      /\nzz-dead +silent +0\.0\.1 ! +ffffffff ! .* no news for (?:[6-9]\d|1\d\d) s\n/,
    );
    assert.match(stdout, /\n2 gateways, .*; ! is not as in most gateways\n$/);
    const json = await status("--json");
    assert.equal(json.code, 1);
    assert.deepEqual(
      (JSON.parse(json.stdout) as GatewayReport[]).map(({ name, state }) => [name, state]),
      [
        [own?.name, "ready"],
        ["zz-dead", "silent"],
      ],
    );
    // A new name drops those that are older than ten minutes.
    await using _other = await startTestGateway({
      config: { store: redis.url, storePrefix: "cli" },
    });
    await eventually(async () => {
      assert.equal(await client.hexists("cli:{0}:status", "zz-forgotten"), 0);
      assert.equal(await client.hlen("cli:{0}:status"), 3);
    });
  });

  it("are none where the store has forgotten all of them, and that is 1 too", async () => {
    const config = { store: redis.url, storePrefix: "none" };
    await using house = await startTestGateway({ config });
    const client = await redis.client();
    // Each tells of itself once a second: between two times the list is empty.
    await eventually(async () => {
      await client.del("none:{0}:status");
      const { status, out } = await runVerb(["status", "--all", "--admin", house.adminUrl]);
      assert.match(out, /\n0 gateways, 0\.0 requests\/s/);
      assert.equal(status, 1);
    });
  });

  it("are draining while they end", async () => {
    const config = { store: redis.url, storePrefix: "drain" };
    await using house = await startTestGateway({ config });
    await using ending = await startTestGateway({
      config: { ...config, limits: { drainDelay: "10m" } },
    });
    const states = async () => {
      const list = (await (await house.admin("/api/gateways")).json()) as GatewayReport[];
      return list.map(({ state, why }) => [state, why]).sort();
    };
    const ready = ["ready", null];
    await eventually(async () => assert.deepEqual(await states(), [ready, ready]));
    const stopping = ending.gateway.stop();
    await eventually(async () => {
      assert.deepEqual(await states(), [["draining", "draining: shutting down"], ready]);
    });
    await ending.gateway.stop({ atOnce: true });
    await stopping;
    assert.deepEqual(await states(), [ready]);
  });

  it("cannot be listed while the store is away, and are all back with it", async () => {
    const own = await startRedis();
    try {
      await using house = await startTestGateway({ config: { store: own.url } });
      const ask = async () => (await house.admin("/api/gateways")).status;
      await eventually(async () => assert.equal(await ask(), 200));
      await own.kill();
      await eventually(async () => assert.equal(await ask(), 503));
      await own.restart();
      await eventually(async () => {
        const list = (await (await house.admin("/api/gateways")).json()) as GatewayReport[];
        assert.deepEqual(
          list.map(({ state, self }) => [state, self]),
          [["ready", true]],
        );
      });
    } finally {
      await own.close();
    }
  });
});

describe("a gateway with a store of its own", () => {
  it("lists itself alone", async () => {
    await using house = await startTestGateway();
    await eventually(async () => {
      const response = await house.admin("/api/gateways");
      const [own, ...others] = (await response.json()) as GatewayReport[];
      assert.deepEqual(others, []);
      assert.deepEqual([own?.state, own?.self, own?.differs], ["ready", true, []]);
      assert.equal(response.headers.get("x-total-count"), "1");
    });
  });

  it("tells its own refusals, and not those of its backend", async () => {
    await using backend = await startTestUpstream((_seen, response) => {
      response.writeHead(503).end();
    });
    await using house = await startTestGateway({ backend, keys: { [KEY]: {} } });
    const rates = async () => {
      const [own] = (await (await house.admin("/api/gateways")).json()) as GatewayReport[];
      return [own?.requestsPerSecond ?? 0, own?.refusalsPerSecond ?? 0] as const;
    };
    for (let i = 0; i < 8; i++) assert.equal((await house.ask(KEY)).status, 503);
    await eventually(async () => {
      const [requests, refusals] = await rates();
      assert.deepEqual([requests > 0, refusals], [true, 0]);
    });
    for (let i = 0; i < 8; i++) assert.equal((await house.ask("no key")).status, 401);
    await eventually(async () => assert.ok((await rates())[1] > 0));
  });
});
