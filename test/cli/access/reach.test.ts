import assert from "node:assert/strict";
import { appendFile } from "node:fs/promises";
import { afterEach, describe, it, vi } from "vitest";
import { fetchAdmin, fetchAllPages } from "../../../src/cli/access/admin-client.ts";
import { gatewayRecordsIdentity } from "../../../src/cli/access/gateway-differences.ts";
import { reachGateway } from "../../../src/cli/access/reach.ts";
import { refreshGateway } from "../../../src/cli/access/refresh-gateway.ts";
import { readKeyFromStdin } from "../../../src/cli/access/with-keys.ts";
import type { Terminal } from "../../../src/cli/framework/terminal.ts";
import { type Invocation, parseAdminOptions } from "../../../src/cli/framework/verb.ts";
import { loadConfig } from "../../../src/config/load/load.ts";
import { openFolder, writeConfig } from "../kit.ts";
import { openAdmin, send } from "./admin-server.ts";

function callOf(options: Readonly<Record<string, string>>, ...args: string[]): Invocation {
  return {
    ...{ args, words: args, flag: () => false, text: (name) => options[name] },
    texts: (name) => [options[name] ?? []].flat(),
  };
}

function terminalOf(stdin = "", token = "secret") {
  let err = "";
  const terminal = {
    ...{ env: { TOLLGATE_ADMIN_TOKEN: token }, readIn: async () => Buffer.from(stdin) },
    err: (text: string) => {
      err += text;
    },
  } as unknown as Terminal;
  return { terminal, err: () => err };
}

const PRODUCTION = { listen: "127.0.0.1:1", keyTag: "live", upstreams: ["http://127.0.0.1:1"] };
const RUNNING = {
  environments: { production: PRODUCTION },
  plans: { free: { minute: 60, meters: { tokens: { minute: 5 } } } },
  hash: "x",
};

describe("a gateway that --admin names", () => {
  it("is asked once for what it runs with, also at an address of IPv6, and for everything else", async () => {
    await using admin = await openAdmin((response) => send(response, 200, RUNNING), "::1");
    const invocation = callOf({ admin: admin.origin });
    const { terminal, err } = terminalOf();
    const reached = await reachGateway(invocation, terminal);
    assert.ok(typeof reached !== "number", err());
    assert.equal(await reachGateway(invocation, terminal), reached);
    assert.deepEqual(
      admin.questions.map(({ asked, headers }) => [asked, headers.authorization]),
      [["GET /api/config", "Bearer secret"]],
    );
    const { config, asksGateway, isRemote, meters } = reached;
    const listen = { host: "::1", port: admin.port };
    assert.deepEqual(config.admin, { listen, token: "secret", hosts: [], url: admin.origin });
    assert.deepEqual([...config.plans.keys()], ["free"]);
    assert.deepEqual([asksGateway, isRemote, meters], [true, true, ["tokens"]]);
  });

  it("is asked at the usual port of HTTP where its address names none", async () => {
    // One of the sixteen million addresses of this machine, at which nothing else listens.
    const host = `127.${[1, 2, 3].map(() => 1 + Math.floor(Math.random() * 254)).join(".")}`;
    const answer = (response: Parameters<typeof send>[0]) => send(response, 200, RUNNING);
    // Others than root may not listen there, on some systems.
    await using admin = await openAdmin(answer, host, 80).catch(() => undefined);
    const { terminal, err } = terminalOf();
    const reached = await reachGateway(callOf({ admin: `http://${host}` }), terminal);
    if (typeof reached === "number") {
      assert.ok(admin === undefined, err());
      assert.ok(err().includes(`at http://${host} (--admin): nothing listens there`), err());
    } else assert.deepEqual(reached.config.admin?.listen, { host, port: 80 });
  });

  it("and cannot be used is told with its reason, and the token where that is the reason", async () => {
    for (const [status, body, told] of [
      [401, { message: "No" }, "No (--admin, AT). Set TOLLGATE_ADMIN_TOKEN to its token"],
      [403, { message: "No" }, "No (--admin, AT)"],
      [403, { message: "N\u001bo" }, "N\\u001bo (--admin, AT)"],
      [
        200,
        { ...RUNNING, plans: 7 },
        "Cannot use the configuration of the gateway at AT: it is of another version",
      ],
    ] as const) {
      await using admin = await openAdmin((response) => send(response, status, body));
      const { terminal, err } = terminalOf();
      assert.equal(await reachGateway(callOf({ admin: admin.origin }), terminal), 1);
      assert.equal(err(), `${told.replace("AT", admin.origin)}\n`);
    }
  });
});

describe("a path in --admin", () => {
  it("comes before that of each question, of a whole list and of a further gateway too", async () => {
    await using admin = await openAdmin((response, { asked }) => {
      const running = { ...RUNNING, status: "ready", checks: {} };
      if (!asked.includes("/api/gateways")) return send(response, 200, running);
      send(response, 200, [], asked.endsWith("1") ? "" : '</api/gateways?after=1>; rel="next"');
    });
    for (const prefix of ["", "/", "/tollgate/admin", "/tollgate/admin/"]) {
      const { terminal, err } = terminalOf();
      const invocation = callOf({ admin: `${admin.origin}${prefix}` });
      const reached = await reachGateway(invocation, terminal);
      assert.ok(typeof reached !== "number", err());
      await fetchAllPages(reached.config, { path: "/api/gateways" });
      await refreshGateway(reached.config);
      await gatewayRecordsIdentity(reached.config);
      const [origin = ""] = parseAdminOptions(invocation);
      await fetchAdmin(reached.config, { path: "/readyz", members: [], origin });
      const base = prefix.replace(/\/$/, "");
      assert.deepEqual(
        admin.questions.splice(0).map(({ asked }) => asked),
        [
          `GET ${base}/api/config`,
          `GET ${base}/api/gateways`,
          `GET ${base}/api/gateways?after=1`,
          `POST ${base}/api/keys/refresh`,
          `GET ${base}/api/records`,
          `GET ${base}/readyz`,
        ],
      );
    }
  });

  it("that leads to no route of the gateway is told with the address", async () => {
    const nothing = { code: "not_found", message: "There is nothing here" };
    await using admin = await openAdmin((response) => send(response, 404, nothing));
    const { terminal, err } = terminalOf();
    const address = `${admin.origin}/x`;
    assert.equal(await reachGateway(callOf({ admin: address }), terminal), 1);
    assert.equal(err(), `There is nothing here (--admin, ${address})\n`);
  });

  it("is taken, and a query or a fragment beside it is refused with 64 before anything is asked", async () => {
    await using admin = await openAdmin((response) => send(response, 200, RUNNING));
    for (const [more, shown] of [
      ["?x=1", "?***"],
      ["#f", "#***"],
      ["/tollgate?x=1#f", "/tollgate?***"],
    ] as const) {
      const { terminal, err } = terminalOf();
      const wrong = callOf({ admin: `${admin.origin}${more}` });
      assert.equal(await reachGateway(wrong, terminal), 64);
      const told = `Cannot use a query or a fragment in --admin: the value is "${admin.origin}${shown}"\n`;
      assert.equal(err(), told);
    }
    assert.deepEqual(admin.questions, []);
  });
});

const NO_TOKEN = "it is not a token of at most 512 printable characters without spaces";

describe("a token of TOLLGATE_ADMIN_TOKEN", () => {
  it("that no configuration could have is wrong usage, names the variable, and asks nothing", async () => {
    await using admin = await openAdmin((response) => send(response, 200, RUNNING));
    const usual = "t".repeat(32);
    for (const [token, why] of [
      [`${usual}\n`, "it has a line end"],
      [`${usual}\r\n${usual}`, "it has a line end"],
      [`${usual}€`, NO_TOKEN],
      [`${usual}\0`, NO_TOKEN],
      [` ${usual}`, NO_TOKEN],
      ["t".repeat(513), NO_TOKEN],
    ] as const) {
      const { terminal, err } = terminalOf("", token);
      assert.equal(await reachGateway(callOf({ admin: admin.origin }), terminal), 64);
      assert.equal(err(), `Cannot use TOLLGATE_ADMIN_TOKEN: ${why}\n`);
    }
    assert.deepEqual(admin.questions, []);
    for (const token of ["", "!~", "t".repeat(512)]) {
      const sound = terminalOf("", token);
      const reached = await reachGateway(callOf({ admin: admin.origin }), sound.terminal);
      assert.notEqual(typeof reached, "number", sound.err());
    }
  });
});

describe("a login in --admin", () => {
  it("is ignored with a warning, and repeated by no message", async () => {
    await using admin = await openAdmin((response) => send(response, 200, RUNNING));
    const { port } = new URL(admin.origin);
    const { terminal, err } = terminalOf();
    const reached = await reachGateway(
      callOf({ admin: `http://me:s3cret@127.0.0.1:${port}` }),
      terminal,
    );
    assert.notEqual(typeof reached, "number", err());
    const warning = `warning: the login in --admin "http://***@127.0.0.1:${port}" is ignored: use TOLLGATE_ADMIN_TOKEN\n`;
    assert.equal(err(), warning);
    assert.equal(admin.questions[0]?.headers.authorization, "Bearer secret");
    await admin[Symbol.asyncDispose]();
    for (const [wrong, status, told] of [
      [
        `http://me:s3cret@127.0.0.1:${port}`,
        1,
        `http://127.0.0.1:${port} (--admin): nothing listens`,
      ],
      ["ftp://me:s3cret@127.0.0.1", 64, 'the value is "ftp://***@127.0.0.1"'],
      ["me:s3cret@127.0.0.1:9090", 64, 'the value is "***@127.0.0.1:9090"'],
    ] as const) {
      const failed = terminalOf();
      assert.equal(await reachGateway(callOf({ admin: wrong }), failed.terminal), status);
      assert.ok(failed.err().includes(told) && !failed.err().includes("s3cret"), failed.err());
    }
  });
});

describe("a gateway that has not taken over its file", () => {
  it("goes by its own plans, with a warning, unless the file is again what it runs with", async () => {
    await using folder = await openFolder();
    let hash = "x";
    await using admin = await openAdmin((response, { asked }) => {
      const checks = { config: { why: "not reloaded: accounts have a plan" } };
      if (asked === "GET /readyz") send(response, 503, { status: "ready", checks });
      else send(response, 200, { ...RUNNING, hash });
    });
    const config = await writeConfig(folder, { admin: admin.port, token: "t".repeat(32) });
    const plans = async () => {
      const { terminal, err } = terminalOf();
      const reached = await reachGateway(callOf({ config }), terminal);
      assert.ok(typeof reached !== "number", err());
      return [[...reached.config.plans.keys()], reached.asksGateway, err()];
    };
    const why = "warning: not reloaded: accounts have a plan";
    const warning = `${config}: ${why}. The plans and environments of the gateway hold\n`;
    assert.deepEqual(await plans(), [["free"], true, warning]);
    const loaded = await loadConfig(config, {});
    assert.ok(loaded.ok);
    hash = loaded.config.hash;
    assert.deepEqual(await plans(), [[...loaded.config.plans.keys()], false, ""]);
  });
});

describe("a gateway whose file has mistakes", () => {
  const reachBy = async (config: string, options: Parameters<typeof reachGateway>[2] = {}) => {
    const { terminal, err } = terminalOf();
    const reached = await reachGateway(callOf({ config }), terminal, options);
    assert.ok(typeof reached !== "number", err());
    const { asksGateway, isRemote, meters, mistakes } = reached;
    return { found: [asksGateway, isRemote, meters, mistakes.length], err: err() };
  };

  it("is asked for its plans while it runs, and the mistakes are told unless the verb tells them", async () => {
    await using folder = await openFolder();
    const admin = await openAdmin((response) => send(response, 200, RUNNING));
    const config = await writeConfig(folder, { admin: admin.port, token: "t".repeat(32) });
    await appendFile(config, "plams: {}\n");
    const told = await reachBy(config);
    assert.deepEqual(told.found, [true, false, ["tokens"], 1]);
    assert.match(told.err, /^[^\n]*: Cannot use plams: [^\n]*\n$/);
    assert.equal((await reachBy(config, { printsMistakes: false })).err, "");
    await admin[Symbol.asyncDispose]();
    assert.deepEqual((await reachBy(config)).found, [false, false, undefined, 1]);
  });

  it("is not asked whether it took the file over by a verb about the file itself", async () => {
    await using folder = await openFolder();
    await using admin = await openAdmin((response) => send(response, 503, {}));
    const config = await writeConfig(folder, { admin: admin.port, token: "t".repeat(32) });
    const { found } = await reachBy(config, { readsFile: true });
    assert.deepEqual([found, admin.questions], [[false, false, [], 0], []]);
  });

  it("is that of --admin where the file leads to none, though further ones may be named", async () => {
    await using admin = await openAdmin((response) => send(response, 200, RUNNING));
    const { terminal, err } = terminalOf();
    const invocation = callOf({ config: "/nowhere/tollgate.yaml", admin: admin.origin });
    const reached = await reachGateway(invocation, terminal, { asksSeveral: true });
    assert.ok(typeof reached !== "number", err());
    assert.equal(reached.isRemote, true);
  });
});

describe("a gateway that is silent", () => {
  afterEach(() => void vi.restoreAllMocks());

  it("is waited for 2 s, and its file taken as it is", async () => {
    const waits: number[] = [];
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
      waits.push(ms);
      return timeout(100);
    });
    await using folder = await openFolder();
    await using admin = await openAdmin(() => {});
    const config = await writeConfig(folder, { admin: admin.port, token: "t".repeat(32) });
    const { terminal, err } = terminalOf();
    const reached = await reachGateway(callOf({ config }), terminal);
    assert.ok(typeof reached !== "number", err());
    assert.deepEqual([reached.asksGateway, err(), waits], [false, "", [2_000]]);
  });
});

describe("a key that stdin has", () => {
  it("is one line of 8 to 512 visible characters", async () => {
    for (const [length, isKey] of [
      [7, false],
      [8, true],
      [512, true],
      [513, false],
    ] as const) {
      const key = "k".repeat(length);
      const { terminal, err } = terminalOf(` ${key}\n`);
      assert.equal(await readKeyFromStdin(callOf({}, "-"), terminal), isKey ? key : undefined);
      const told = "Expected one key in stdin, on a line of its own\n";
      assert.equal(err(), isKey ? "" : told);
    }
    const { terminal, err } = terminalOf("two-lines\nof-two-keys\n");
    assert.equal(await readKeyFromStdin(callOf({}, "-"), terminal), undefined);
    assert.equal(await readKeyFromStdin(callOf({}, "x".repeat(20)), terminal), undefined);
    const [, second] = err().split("\n");
    assert.equal(second, 'Expected "-": the key itself is read from stdin');
  });
});
