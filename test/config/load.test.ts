// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are part of the format
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { loadConfig } from "../../src/config/load/load.ts";
import { maskedConfig } from "../../src/config/queries/masked-config.ts";
import { provided } from "../support/needing.ts";
import { ENVIRONMENTS, loadFiles, loadLines, PLANS, told } from "./folder.ts";

const SECOND = 1_000;
const MINUTE = 60_000;
const DAY = 86_400_000;

describe("loadConfig fills in", () => {
  it("the folder TOLLGATE_DATA for keys and stateFile, where the file does not name them", async () => {
    const load = async (lines: string, folder: string) => {
      const { keys, stateFile, file } = await loadLines(lines, { TOLLGATE_DATA: folder });
      return { keys: keys.in === "file" ? keys.path : keys.in, stateFile, file };
    };
    const unnamed = await load("", "/volume");
    assert.equal(unnamed.keys, "/volume/keys.json");
    assert.equal(unnamed.stateFile, "/volume/state.json");
    const named = await load("keys: ./k.json", "/volume");
    assert.equal(named.keys, join(named.file, "../k.json"));
    assert.equal(named.stateFile, "/volume/state.json");
    const unset = await load("", "");
    assert.equal(unset.keys, join(unset.file, "../data/keys.json"));
  });

  it("every default of docs/configuration.md", async () => {
    const { file, hash, keys, stateFile, plans, environments, ...rest } = await loadLines("");
    assert.match(hash, /^[0-9a-f]{64}$/);
    assert.equal(keys.in === "file" && keys.path, join(file, "../data/keys.json"));
    assert.equal(stateFile, join(file, "../data/state.json"));
    assert.deepEqual(plans.get("free"), [{ window: "minute", limit: 60 }]);
    assert.deepEqual(rest, {
      store: { kind: "memory", shown: "memory" },
      storePrefix: "tg",
      onStoreFailure: "local",
      expectedGateways: 1,
      storeTimeoutMs: 50,
      workers: 1,
      bans: {
        strikes: 20,
        withinMs: MINUTE,
        graceMs: SECOND,
        durationMs: MINUTE,
        factor: 4,
        maxMs: DAY,
        forgetAfterMs: DAY,
      },
      planBounds: new Map([
        ["free", { concurrent: undefined, observe: [], included: [], meters: [] }],
      ]),
      unauthenticated: { window: "minute", limit: 60 },
      keyPrefix: "pets",
      rateLimitFields: "off",
      errors: "plain",
      trustedProxies: [],
      admin: { listen: { host: "127.0.0.1", port: 9090 }, token: "", hosts: [] },
      log: { level: "info", meta: [] },
      metrics: { routes: 50 },
      historyMs: undefined,
      keyHeaders: ["authorization"],
      foreignKeys: [],
      events: undefined,
      quotaEventWindows: ["day", "week", "month", "year"],
      telemetry: undefined,
    });
    assert.equal(environments.length, 1);
  });

  it("every default of an environment", async () => {
    const { environments } = await loadLines("");
    assert.deepEqual(environments, [
      {
        name: "production",
        listen: { host: "127.0.0.1", port: 0 },
        hosts: [],
        keyTag: "live",
        routes: {
          basePath: "/v1",
          paths: "exact",
          operations: undefined,
          costs: [],
          publicRoutes: [],
        },
        upstreams: ["http://127.0.0.1:9001"],
        ...{ services: [], publicPlan: undefined, standing: undefined, maintenance: undefined },
        ...{ allow: [], deny: [] },
        upstreamHost: "upstream",
        upstreamTls: { ca: undefined, clientCertificate: undefined, serverName: undefined },
        ...{ healthCheck: undefined, tls: undefined, cors: undefined },
        limits: {
          headerBytes: 16 * 1024,
          headerCount: 100,
          urlBytes: 8 * 1024,
          bodyBytes: 1024 ** 2,
          connections: 20_000,
          connectionsPerAddress: 0,
          meteredBytes: 1024 ** 2,
          upstreamConnections: 256,
          headersTimeoutMs: 10 * SECOND,
          requestTimeoutMs: 30 * SECOND,
          connectTimeoutMs: 2 * SECOND,
          upstreamIdleMs: 4 * SECOND,
          connectRetryMs: 0,
          responseTimeoutMs: 60 * SECOND,
          idleTimeoutMs: 60 * SECOND,
          tunnelsPerKey: 100,
          tunnelIdleMs: 60 * SECOND,
          drainDelayMs: 0,
          drainMs: 25 * SECOND,
        },
      },
    ]);
  });

  it("limits of an environment over those of all, key by key", async () => {
    const config = await loadLines(`limits: { bodyBytes: 2MiB, drain: 5s }
environments:
  a: { listen: 127.0.0.1:0, keyTag: a, upstreams: [http://a], limits: { bodyBytes: 512B } }
  b: { listen: 127.0.0.1:0, keyTag: b, upstreams: [http://b] }`);
    const seen = config.environments.map(({ limits }) => [limits.bodyBytes, limits.drainMs]);
    assert.deepEqual(seen, [
      [512, 5 * SECOND],
      [2 * 1024 ** 2, 5 * SECOND],
    ]);
  });

  it("a headersTimeout that is never longer than the requestTimeout", async () => {
    const { environments } = await loadLines("limits: { requestTimeout: 1s }");
    assert.equal(environments[0]?.limits.headersTimeoutMs, SECOND);
  });
});

describe("the hash of a configuration", () => {
  it("lets no secret be guessed that a variable holds, and tells one file from another", async () => {
    const lines = 'admin: { listen: 127.0.0.1:9090, token: "${TOKEN:-}" }';
    const weak = await loadLines(lines, { TOKEN: "letmein" });
    const other = await loadLines(lines, { TOKEN: "hunter2" });
    assert.equal(weak.hash, other.hash);
    assert.notEqual((await loadLines(`${lines}\nkeyPrefix: other`)).hash, weak.hash);
  });
});

describe("loadConfig reads", () => {
  it("off in every way that YAML has it, for bans, admin and rateLimitFields", async () => {
    for (const off of ["off", '"off"', "false"]) {
      const config = await loadLines(`bans: ${off}\nadmin: ${off}\nrateLimitFields: ${off}`);
      assert.equal(config.bans, undefined);
      assert.equal(config.admin, undefined);
      assert.equal(config.rateLimitFields, "off");
    }
    assert.equal((await loadLines("rateLimitFields: ietf")).rateLimitFields, "ietf");
  });

  it("windows from the shortest to the longest, and limits at both edges", async () => {
    const { plans } = await loadLines(
      "plans: { all: { month: 1000000000000, day: 5, hour: 4, minute: 3, second: 1 } }",
    );
    const limits = plans.get("all");
    assert.ok(Array.isArray(limits));
    const seen = limits.map(({ window, limit }) => `${window}=${limit}`);
    assert.deepEqual(seen, ["second=1", "minute=3", "hour=4", "day=5", "month=1000000000000"]);
  });

  it("durations and sizes in every unit", async () => {
    const lines = `bans: { within: 5m, grace: 500ms, max: 30d, forgetAfter: 24h, duration: 10s }
limits: { bodyBytes: 1GiB, headerBytes: 16KiB, urlBytes: 100B }`;
    const { bans, environments } = await loadLines(lines);
    assert.equal(bans?.withinMs, 5 * MINUTE);
    assert.equal(bans?.graceMs, 500);
    assert.equal(bans?.maxMs, 30 * DAY);
    assert.equal(bans?.forgetAfterMs, DAY);
    assert.equal(bans?.durationMs, 10 * SECOND);
    const { bodyBytes, headerBytes, urlBytes } = environments[0]?.limits ?? {};
    assert.deepEqual([bodyBytes, headerBytes, urlBytes], [1024 ** 3, 16_384, 100]);
  });

  it("trusted proxies as networks, a bare address as a network of one", async () => {
    const lines = 'trustedProxies: [10.0.0.0/8, 192.0.2.1, "2001:db8::/32", "::1", 0.0.0.0/0]';
    const { trustedProxies } = await loadLines(lines);
    const expected = ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32", "::1/128", "0.0.0.0/0"];
    assert.deepEqual(trustedProxies, expected);
  });

  it("one listener for environments that differ by hosts, one of them for all others", async () => {
    const config = await loadLines(`environments:
  a: { listen: 127.0.0.1:8080, hosts: [a.example.com], keyTag: a, upstreams: [http://a] }
  b: { listen: 127.0.0.1:8080, hosts: [b.example.com], keyTag: b, upstreams: [http://b] }
  c: { listen: 127.0.0.1:8080, keyTag: c, upstreams: [http://c] }`);
    assert.equal(config.environments.length, 3);
  });

  it("an address of IPv6 beside all of IPv4, and an IPv4-mapped one as the same as IPv4", async () => {
    const config = await loadLines(`environments:
  a: { listen: "[::1]:8080", keyTag: a, upstreams: [http://a] }
  b: { listen: "[::ffff:0.0.0.0]:8080", hosts: [b.example.com], keyTag: b, upstreams: [http://b] }
  c: { listen: 0.0.0.0:8080, hosts: [c.example.com], keyTag: c, upstreams: [http://c] }`);
    assert.deepEqual(
      config.environments.map(({ listen }) => listen.host),
      ["::1", "0.0.0.0", "0.0.0.0"],
    );
  });

  it("port 0 twice as two listeners", async () => {
    const config = await loadLines(`environments:
  a: { listen: 127.0.0.1:0, keyTag: a, upstreams: [http://a] }
  b: { listen: 127.0.0.1:0, keyTag: b, upstreams: [http://b] }
admin: { listen: 127.0.0.1:0 }`);
    assert.equal(config.environments.length, 2);
  });

  it("an admin listener off loopback with a token of 32 characters, not of 31", async () => {
    const lines = (length: number) => {
      return `admin: { listen: 0.0.0.0:9090, token: ${"x".repeat(length)} }`;
    };
    assert.equal((await loadLines(lines(32))).admin?.token.length, 32);
    await assert.rejects(loadLines(lines(31)), /token of at least 32 characters/);
    const loopback = [
      "127.0.0.1:9",
      "127.9.9.9:9",
      "localhost:9",
      '"[::1]:9"',
      '"[::ffff:7f00:1]:9"',
    ];
    for (const listen of loopback) await loadLines(`admin: { listen: ${listen} }`);
  });

  it("an admin token whose variable is null as this text", async () => {
    for (const text of ["null", "~"]) {
      const config = await loadLines("admin:\n  token: ${TOKEN}", { TOKEN: text });
      assert.equal(config.admin?.token, text);
    }
  });

  it("an admin token left empty, in quotes or not, as none", async () => {
    for (const token of ["${TOKEN:-}", '"${TOKEN:-}"', '""']) {
      assert.equal((await loadLines(`admin:\n  token: ${token}`)).admin?.token, "");
    }
  });

  it("workers and keys in Redis where the store is one", async () => {
    const config = await loadLines("store: redis://127.0.0.1:6379\nkeys: redis\nworkers: auto");
    assert.deepEqual(config.keys, { in: "redis" });
    assert.equal(config.workers, "auto");
  });

  it("a file with a byte order mark and CRLF, keeping lines and columns", async () => {
    const text = `\uFEFF${ENVIRONMENTS}${PLANS}log:\n  level: loud\n`.replaceAll("\n", "\r\n");
    assert.match(told(await loadFiles({ "tollgate.yaml": text }))[0] ?? "", /^5:10: /);
  });

  it("a warning of a longer window that allows less than a shorter one, at its place", async () => {
    const warned = async (plan: string) => {
      const loaded = await loadFiles({
        "tollgate.yaml": `${ENVIRONMENTS}plans: { free: ${plan} }\n`,
      });
      assert.ok(loaded.ok);
      return loaded.warnings.map(({ message }) => message);
    };
    assert.deepEqual(await warned("{ minute: 60, day: 60, month: 60 }"), []);
    assert.deepEqual(await warned("{ minute: 60, day: 59 }"), [
      "The minute limit of plan free, 60, is never reached: the day allows 59 in all; raise one or lower the other",
    ]);
    assert.equal((await warned("{ minute: 60, day: 1000, week: 999 }")).length, 1);
  });

  it("warnings of bans that can never happen or never grow", async () => {
    const warned = async (bans: string) => {
      const loaded = await loadFiles({ "tollgate.yaml": `${ENVIRONMENTS}${PLANS}bans: ${bans}\n` });
      assert.ok(loaded.ok);
      return loaded.warnings.map(({ message }) => message.split(":")[0]);
    };
    assert.deepEqual(await warned("{ strikes: 61, within: 1m }"), []);
    assert.deepEqual(await warned("{ strikes: 62, within: 1m }"), ["No ban can happen"]);
    assert.equal((await warned("{ duration: 25h }")).length, 1);
    assert.deepEqual(await warned("{ duration: 24h }"), []);
  });

  it("warnings of upstreamTls where no upstream is https", async () => {
    const warned = async (upstreams: string) => {
      const lines = `upstreams: [${upstreams}], upstreamTls: { serverName: a.test } }`;
      const text = `${ENVIRONMENTS.replace(/upstreams: .*/, lines)}${PLANS}`;
      const loaded = await loadFiles({ "tollgate.yaml": text });
      assert.ok(loaded.ok);
      return loaded.warnings.map(({ message }) => message.split(" ")[0]);
    };
    assert.deepEqual(await warned("http://a.test, http://b.test"), ["Nothing"]);
    assert.deepEqual(await warned("http://a.test, https://b.test"), []);
  });

  it("records in a Redis with a state file that is named redis", async () => {
    const lines = "store: redis://127.0.0.1\nkeys: redis\nstateFile: redis";
    assert.deepEqual((await loadLines(lines)).keys, { in: "redis" });
  });
});

describe("loadConfig refuses a file", () => {
  const refused = async (content: string | Uint8Array) => {
    const loaded = await loadFiles({ "tollgate.yaml": content });
    assert.equal(loaded.ok, false);
    return told(loaded)[0] ?? "";
  };

  it("that is not there", async () => {
    const loaded = await loadConfig("no/such/tollgate.yaml", {});
    assert.ok(!loaded.ok);
    assert.deepEqual(loaded.mistakes, [
      {
        file: "no/such/tollgate.yaml",
        line: 1,
        column: 1,
        message: "Cannot read the configuration: there is no such file; check the path",
      },
    ]);
  });

  it(
    "that the disk cannot read, or a file that it names, as one that was not judged",
    provided(process.platform === "linux", "Linux"),
    async () => {
      const failing = "/proc/self/mem";
      const itself = await loadConfig(failing, {});
      const named = [
        ENVIRONMENTS.replace("keyTag", `api: ${failing}, keyTag`),
        ENVIRONMENTS.replace("keyTag", `upstreamTls: { ca: ${failing} }, keyTag`),
        `${ENVIRONMENTS}storePrefix: "\${file:${failing}}"\n`,
      ].map((lines) => loadFiles({ "tollgate.yaml": `${PLANS}${lines}` }));
      const whys = [itself, ...(await Promise.all(named))].map((one) => !one.ok && one.unread);
      assert.deepEqual(whys, Array(4).fill("the system says EIO"));
      const missing = await loadFiles({
        "tollgate.yaml": `${PLANS}${ENVIRONMENTS.replace("keyTag", "api: ./none.yaml, keyTag")}`,
      });
      assert.equal(missing.ok || missing.unread, undefined);
    },
  );

  it("that is a folder", async () => {
    const [message] = told(await loadConfig(tmpdir(), {}));
    assert.match(message ?? "", /it is a folder/);
  });

  it("over 1 MiB, and reads one of exactly that", async () => {
    const start = `${ENVIRONMENTS}${PLANS}`;
    const whole = `${start}#${" ".repeat(1024 ** 2 - start.length - 1)}`;
    assert.equal((await loadFiles({ "tollgate.yaml": whole })).ok, true);
    assert.match(await refused(`${whole} `), /^1:1: .*larger than 1048576 bytes/);
  });

  it("that is not UTF-8, naming the line", async () => {
    const text = Buffer.concat([Buffer.from("a: 1\nb: "), Buffer.from([0xe9]), Buffer.from("\n")]);
    assert.match(await refused(text), /^2:1: Cannot read the configuration: it is not UTF-8/);
  });

  it("of a hundred thousand brackets", async () => {
    assert.match(await refused("[".repeat(100_000)), /nested too deeply/);
  });
});

describe("maskedConfig", () => {
  const secrets = `store: redis://tollgate:hunter2@127.0.0.1:6379
admin: { token: hunter2hunter2 }
plans: { free: { minute: 60, day: 1000 }, enterprise: custom }
bans: off`;

  it("is plain JSON without a secret", async () => {
    const config = await loadLines(secrets);
    const shown = JSON.stringify(maskedConfig(config));
    assert.doesNotMatch(shown, /hunter2/);
    const read = JSON.parse(shown);
    assert.equal(read.store, "redis://tollgate:***@127.0.0.1:6379");
    assert.equal(read.admin.token, "***");
    assert.deepEqual(read.plans, { free: { minute: 60, day: 1000 }, enterprise: "custom" });
    assert.equal(read.bans, "off");
    assert.equal(read.hash, config.hash);
    assert.equal(read.environments.production.operations, "all");
  });
});
