import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, it, onTestFinished, vi } from "vitest";
import { type EmbedOptions, start } from "../../src/server/embed.ts";
import { encodeKeyFile } from "../../src/stores/keys/file/file-format.ts";
import type { GatewayReport } from "../../src/telemetry/gateway-status.ts";
import { freePorts, openFolder, runVerb, writeConfig } from "../cli/kit.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { recordsFrom } from "../support/records.ts";

/** As a program in JavaScript calls it, without types. */
const startWith = (options?: unknown) => start(options as EmbedOptions);

async function createKey(configFile: string): Promise<{ readonly key: string }> {
  const create = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
  const made = await runVerb([...create, "--config", configFile]);
  return JSON.parse(made.out) as { key: string };
}

/** The timers after which a file of keys is looked at, from now on to the end of the test. */
function watchLooks(): ReadonlySet<unknown> {
  const looks = new Set<unknown>();
  const { setTimeout: wait, clearTimeout: clear } = globalThis;
  const begin = (work: () => void, ms: number) => {
    const timer = wait(() => {
      looks.delete(timer);
      work();
    }, ms);
    if (new Error().stack?.includes("/file-key-store.ts")) looks.add(timer);
    return timer;
  };
  vi.spyOn(globalThis, "setTimeout").mockImplementation(begin as typeof wait);
  vi.spyOn(globalThis, "clearTimeout").mockImplementation((timer) => {
    looks.delete(timer);
    clear(timer);
  });
  onTestFinished(() => void vi.restoreAllMocks());
  return looks;
}

describe("an embedded gateway", () => {
  it.each([
    [
      undefined,
      /^Cannot start without options: give the configuration, as in start\(\{ configFile: /,
    ],
    ["config.yaml", /^Cannot start without options/],
    [
      {},
      /^Cannot start without configFile, the path of the configuration, as in start\(\{ configFile: /,
    ],
    [{ configFile: 7 }, /^Cannot start without configFile/],
    [
      { configFile: "a.yaml", config: "b.yaml" },
      /^Cannot start with the option config: the options are configFile, env, log$/,
    ],
    [{ configFile: "a.yaml", env: "A=1" }, /^Cannot start with this env/],
    [{ configFile: "a.yaml", env: null }, /^Cannot start with this env/],
    [{ configFile: "a.yaml", log: console }, /^Cannot start with this log/],
    [null, /^Cannot start without options/],
    [{ configFile: "" }, /^Cannot start without configFile/],
  ])("refuses %j in a sentence", async (options, expected) => {
    await assert.rejects(startWith(options), { name: "TypeError", message: expected });
  });

  it("says in its log what the configuration hardly means, and rejects with each of its mistakes", async () => {
    await using folder = await openFolder();
    const lines: Record<string, unknown>[] = [];
    // Without a variable of that name, as the program's own environment is none of the gateway's.
    const more = `trustedProxies: ["0.0.0.0/\${PATH:-0}"]\nlog: { level: warn }`;
    const configFile = await writeConfig(folder, { more });
    const gateway = await start({ configFile, log: (line) => void lines.push(JSON.parse(line)) });
    assert.deepEqual(Object.keys(gateway.urls).sort(), ["production", "staging"]);
    assert.equal((await fetch(`${gateway.urls.production}/v1/pets`)).status, 401);
    await gateway.stop();
    const warned = lines.filter(({ msg }) => msg === "config_warning");
    assert.deepEqual(
      warned.map(({ level, file }) => [level, file]),
      [["warn", configFile]],
    );
    assert.match(String(warned[0]?.why), /^0\.0\.0\.0\/0 is every address/);
    assert.equal(typeof warned[0]?.line, "number");
    assert.deepEqual(lines, warned, "it logs from the level of the configuration on");
    await writeConfig(folder, { more: "workers: 0\nstrange: 1" });
    const places = new RegExp(`^${configFile}:\\d+:\\d+: .*\n${configFile}:\\d+:\\d+: `);
    await assert.rejects(start({ configFile }), { message: places });
    for (const workers of ["2", "auto"]) {
      await writeConfig(folder, { store: "redis://127.0.0.1:1", more: `workers: ${workers}` });
      await assert.rejects(
        start({ configFile }).then((gateway) => gateway.stop()),
        new RegExp(`^Error: workers is ${workers}: an embedded gateway runs in`),
      );
    }
  });

  it("warns of accounts whose plan is gone only where a key of theirs still works", async () => {
    await using folder = await openFolder();
    const configFile = await writeConfig(folder);
    const records = recordsFrom([
      { id: "over", plan: "gone", expiresMs: Date.now() - 1 },
      { id: "works", plan: "gone", expiresMs: Date.now() + 3_600_000 },
    ]);
    await mkdir(join(folder.path, "data"));
    await writeFile(join(folder.path, "data/keys.json"), [...encodeKeyFile(records)].join(""));
    const lines: Record<string, unknown>[] = [];
    const gateway = await start({ configFile, log: (line) => void lines.push(JSON.parse(line)) });
    await gateway.stop();
    const [warning, ...more] = lines.filter(({ msg }) => msg === "config_warning");
    assert.deepEqual([warning?.file, more], [configFile, []]);
    assert.match(String(warning?.why), /there is no plan gone, and the account works has it;/);
  });

  it("leaves no port open and no timer that repeats where the last port cannot be had", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    await using folder = await openFolder();
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port: admin } = other.address() as AddressInfo;
    const [production = 0] = await freePorts(1);
    const more = "telemetry: { otlp: http://127.0.0.1:1 }";
    const configFile = await writeConfig(folder, { production, admin, more });
    const looks = watchLooks();
    await assert.rejects(start({ configFile }), /EADDRINUSE|in use/);
    assert.deepEqual([vi.getTimerCount(), looks.size], [0, 0]);
    const again = createServer().listen(production, "127.0.0.1");
    await once(again, "listening");
    again.close();
    other.close();
  });

  it("leaves no timer that repeats when it has stopped, whatever is asked of it then", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      await using folder = await openFolder();
      const configFile = await writeConfig(folder, { admin: 0 });
      const gateway = await start({ configFile });
      assert.ok(vi.getTimerCount() > 0);
      const { urls } = gateway;
      await gateway.stop();
      assert.equal(vi.getTimerCount(), 0);
      assert.deepEqual(gateway.urls, urls);
      await writeConfig(folder, { admin: 0, more: "log: { level: debug }" });
      const reloaded = await gateway.reload();
      assert.ok(!reloaded.ok, "a gateway that has stopped takes no new configuration");
      assert.deepEqual(reloaded.reasons, ["The gateway has stopped"]);
      assert.equal(vi.getTimerCount(), 0);
    } finally {
      vi.useRealTimers();
    }
  });

  it("reloads when it is told to, in whatever folder its program is by then, and names itself in its events", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder, { more: `log: { level: "\${LEVEL}" }` });
    const configFile = relative(process.cwd(), file);
    const lines: Record<string, unknown>[] = [];
    const log = (line: string) => void lines.push(JSON.parse(line));
    const gateway = await start({ configFile, env: { LEVEL: "info" }, log });
    const before = process.cwd();
    try {
      process.chdir(import.meta.dirname);
      assert.ok((await gateway.reload()).ok);
      const [event] = lines.filter(({ msg }) => msg === "event");
      assert.equal(event?.kind, "config_reloaded");
      assert.match(String(event?.gateway), /^.+-[0-9a-f]{6}(?:-\d+)?$/);
    } finally {
      process.chdir(before);
      await gateway.stop();
    }
  });

  it("has one name in its events, its metrics and the list of gateways, and no other gateway of the program has it", async () => {
    await using folder = await openFolder();
    const configFile = await writeConfig(folder, { admin: 0 });
    const nameOf = async () => {
      const lines: Record<string, unknown>[] = [];
      const gateway = await start({ configFile, log: (line) => void lines.push(JSON.parse(line)) });
      try {
        assert.ok((await gateway.reload()).ok);
        const inEvents = lines.find(({ msg }) => msg === "event")?.gateway;
        const listed = await (await fetch(`${gateway.adminUrl}/api/gateways`)).json();
        const own = (listed as GatewayReport[]).filter(({ self }) => self);
        assert.deepEqual([own.map(({ name }) => name)], [[inEvents]]);
        const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
        assert.match(
          metrics,
          new RegExp(`^tollgate_charges_owed\\{gateway="${inEvents}"\\} 0$`, "m"),
        );
        return inEvents;
      } finally {
        await gateway.stop();
      }
    };
    const [one, other] = [await nameOf(), await nameOf()];
    assert.notEqual(one, other);
    assert.match(String(other), /^.+-[0-9a-f]{6}-\d+$/);
  });

  it("says in its log what a configuration that it reloads hardly means, and nothing of one that it refuses", async () => {
    await using folder = await openFolder();
    const configFile = await writeConfig(folder);
    const lines: Record<string, unknown>[] = [];
    const gateway = await start({ configFile, log: (line) => void lines.push(JSON.parse(line)) });
    const warned = () => lines.filter(({ msg }) => msg === "config_warning");
    try {
      const free = "{ minute: 60, hour: 5 }";
      await writeConfig(folder, { free, more: "storePrefix: other" });
      assert.ok(!(await gateway.reload()).ok);
      assert.deepEqual(warned(), []);
      await writeConfig(folder, { free });
      assert.ok((await gateway.reload()).ok);
      const [warning, ...more] = warned();
      assert.deepEqual([warning?.level, warning?.file, more], ["warn", configFile, []]);
      assert.equal(typeof warning?.line, "number");
      assert.match(String(warning?.why), /^The minute limit of plan free, 60, is never reached:/);
    } finally {
      await gateway.stop();
    }
  });

  it("cuts the requests of a drain that is under way when it is told to stop at once", async () => {
    await using folder = await openFolder();
    const asked = Promise.withResolvers<void>();
    await using upstream = await startTestUpstream(() => asked.resolve());
    const productionUpstream = Number(new URL(upstream.origin).port);
    const configFile = await writeConfig(folder, { productionUpstream });
    const { key } = await createKey(configFile);
    const gateway = await start({ configFile });
    const headers = { Authorization: `Bearer ${key}` };
    const answer = fetch(`${gateway.urls.production}/v1/pets`, { headers });
    const cut = assert.rejects(answer.then((response) => response.text()));
    await asked.promise;
    const stopped = gateway.stop();
    assert.equal(await Promise.race([stopped, delay(100, "waits")]), "waits");
    await gateway.stop({ atOnce: true });
    await Promise.all([cut, stopped]);
  });

  it("waits for no delay of its drain when it is told to stop at once", async () => {
    await using folder = await openFolder();
    const configFile = await writeConfig(folder, { more: "limits: { drainDelay: 10m }" });
    const gateway = await start({ configFile });
    const stopped = gateway.stop();
    await gateway.stop({ atOnce: true });
    await stopped;
  });

  const fault = new Error("the program's own fault");
  const logs: Readonly<Record<string, () => void>> = {
    throws: () => {
      throw fault;
    },
    rejects: () => Promise.reject(fault),
  };
  it.each(Object.entries(logs))("serves on when the program's log %s", async (_, log) => {
    const unhandled: unknown[] = [];
    const heard = (reason: unknown) => void unhandled.push(reason);
    process.on("unhandledRejection", heard);
    onTestFinished(() => void process.off("unhandledRejection", heard));
    await using folder = await openFolder();
    await using upstream = await startTestUpstream();
    const productionUpstream = Number(new URL(upstream.origin).port);
    const configFile = await writeConfig(folder, { productionUpstream });
    const { key } = await createKey(configFile);
    let lines = 0;
    const gateway = await start({
      configFile,
      log: () => {
        lines += 1;
        return log();
      },
    });
    try {
      const headers = { Authorization: `Bearer ${key}` };
      for (let i = 0; i < 3; i++) {
        const { status } = await fetch(`${gateway.urls.production}/v1/pets`, { headers });
        assert.equal(status, 200);
      }
      assert.ok(lines >= 3, `${lines} lines`);
      assert.deepEqual(unhandled, []);
    } finally {
      await gateway.stop();
    }
  });
});
