import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, it } from "vitest";
import { stringify } from "yaml";
import { configText, freePorts } from "./cli/kit.ts";
import {
  type ProcessResult,
  type RunningProcess,
  startProgram,
} from "./support/gateway/processes.ts";
import { type EngineNode, engineNodes, programOf, userEnv } from "./support/node-versions.ts";
import { buildAlone } from "./support/one-at-a-time.ts";
import { eventually } from "./support/poll.ts";
import { startRedis, type TestRedis } from "./support/redis/redis.ts";
import { type Authority, openAuthority } from "./support/wire/certificates.ts";
import {
  openWebSocket,
  startWebSocketUpstream,
  type WebSocketUpstream,
} from "./support/wire/websocket.ts";

const ROOT = join(import.meta.dirname, "..");
const run = promisify(execFile);
const nodes = await engineNodes();

let home: string;
let backend: WebSocketUpstream;
let redis: TestRedis;
let authority: Authority;

beforeAll(async () => {
  [home, backend, redis] = await Promise.all([
    mkdtemp(join(tmpdir(), "tollgate-engines-")),
    startWebSocketUpstream(),
    startRedis(),
  ]);
  authority = openAuthority();
  const env = { ...userEnv(), PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
  const args = ["pack", "--json", "--pack-destination", home];
  const { stdout } = await buildAlone(() => run("npm", args, { cwd: ROOT, env }));
  const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf("["))) as [{ filename: string }];
  await run("npm", ["install", "--no-audit", "--no-fund", `./${filename}`], { cwd: home, env });
});
afterAll(async () => {
  await Promise.all([backend.close(), redis.close()]);
  authority[Symbol.dispose]();
  await rm(home, { recursive: true, force: true });
});

/** The program of the package, as npm links it, in a folder of its own and on one Node. */
type Installed = {
  readonly folder: string;
  start(...args: string[]): RunningProcess;
  /** Runs a command to its end, and gives its stdout: it has succeeded, and said nothing else. */
  ends(...args: string[]): Promise<string>;
  /** A key of its own account. */
  issue(environment: string): Promise<string>;
  /** The units that the store has counted, of the account whose key was issued last. */
  used(gateway: RunningProcess): Promise<number>;
};

type Issued = { readonly key: string; readonly account: string };
type Usage = { readonly windows: readonly { readonly used: number }[] };

async function install(
  node: EngineNode,
  config?: Readonly<Record<string, unknown>>,
): Promise<Installed> {
  const folder = await mkdtemp(join(home, "run-"));
  const env = { PATH: `${dirname(programOf(node))}:${process.env.PATH}` };
  const start: Installed["start"] = (...args) => {
    return startProgram(join(home, "node_modules/.bin/tollgate"), args, { cwd: folder, env });
  };
  const ends: Installed["ends"] = async (...args) => quiet(await start(...args).exited);
  let account = "";
  const issue: Installed["issue"] = async (environment) => {
    const args = ["--env", environment, "--plan", "free", "--json"];
    const created = JSON.parse(await ends("keys", "create", ...args)) as Issued;
    account = created.account;
    return created.key;
  };
  const used: Installed["used"] = async (gateway) => {
    const { admin } = await gateway.line(({ msg }) => msg === "serving");
    const { windows } = (await (await fetch(`${admin}/api/usage/${account}`)).json()) as Usage;
    return windows.at(-1)?.used ?? Number.NaN;
  };
  await mkdir(join(folder, "config"));
  if (config !== undefined)
    await writeFile(join(folder, "config/tollgate.yaml"), stringify({ ...ADMIN, ...config }));
  return { folder, start, ends, issue, used };
}

/** Stdout of a process that ended well, and had nothing to say on stderr. */
function quiet({ code, stdout, stderr }: ProcessResult): string {
  assert.deepEqual([code, stderr], [0, ""], stdout);
  return stdout;
}

async function urlsOf(gateway: RunningProcess): Promise<Record<string, string>> {
  const { urls } = await gateway.line(({ msg }) => msg === "serving");
  return urls as Record<string, string>;
}

/** Any free port, where its default is one for the whole machine. */
const ADMIN = { admin: { listen: "127.0.0.1:0" } };
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const environment = (keyTag: string) => {
  return { listen: "127.0.0.1:0", basePath: "/v1", keyTag, upstreams: [backend.origin] };
};

describe("the package, on the oldest and the newest Node of each line", () => {
  it.each(nodes)(
    "is run for the first time as the README has it, and says nothing on stderr: $version",
    async (node) => {
      const { folder, start, ends, issue, used } = await install(node);
      assert.match(await ends("--version"), /^tollgate \d/);
      assert.match(await ends("init", "--upstream", backend.origin), /keys create/);
      const file = join(folder, "config/tollgate.yaml");
      const text = (await readFile(file, "utf8")).replace(":8080", ":0");
      await writeFile(file, `${text}${stringify(ADMIN)}`);
      await ends("check");
      const key = await issue("production");
      await using gateway = start("start");
      const { production } = await urlsOf(gateway);
      const answer = await fetch(`${production}/pets`, { headers: bearer(key) });
      assert.deepEqual([answer.status, await answer.text()], [200, "plain"]);
      assert.equal(answer.headers.get("x-ratelimit-remaining"), "59");
      assert.equal((await fetch(`${production}/pets`)).status, 401);
      assert.equal(await used(gateway), 1);
      quiet(await gateway.stop());
    },
  );

  it.each(nodes)(
    "serves a WebSocket, and TLS, and says nothing on stderr: $version",
    async (node) => {
      const { cert, key: certKey } = authority.issue(["IP:127.0.0.1"]);
      const { folder, start, issue } = await install(node, {
        keys: "./keys.json",
        stateFile: "./state.json",
        environments: {
          production: environment("live"),
          staging: { ...environment("test"), tls: { cert: "./edge.pem", key: "./edge.key" } },
        },
        plans: { free: { minute: 60 } },
      });
      await writeFile(join(folder, "config/edge.pem"), cert);
      await writeFile(join(folder, "config/edge.key"), certKey);
      const keys = { live: await issue("production"), test: await issue("staging") };
      await using gateway = start("start");
      const { production, staging } = await urlsOf(gateway);
      for (const [url, key] of [
        [production, keys.live],
        [staging, keys.test],
      ] as const) {
        await using client = await openWebSocket(`${url}/v1/socket`, { key, ca: authority.ca });
        client.socket.send(`hello on ${node.version}`);
        await eventually(() => assert.equal(client.messages.length, 1));
        assert.equal(String(client.messages[0]?.data), `hello on ${node.version}`);
      }
      const asked = request(`${staging}/v1/pets`, { ca: authority.ca, headers: bearer(keys.test) });
      const [answer] = await once(asked.end(), "response");
      assert.equal(answer.statusCode, 200);
      assert.equal(answer.resume().headers["x-ratelimit-remaining"], "58");
      quiet(await gateway.stop());
    },
  );

  it.each(nodes)(
    "serves with two workers on Redis, which count together, and says nothing on stderr: $version",
    async (node) => {
      const { start, issue, used } = await install(node, {
        store: redis.url,
        storeTimeout: "1s",
        keys: "redis",
        workers: 2,
        environments: { production: environment("live") },
        plans: { free: { month: 1000 } },
      });
      const key = await issue("production");
      await using gateway = start("start");
      const { production } = await urlsOf(gateway);
      const asked = await Promise.all(
        Array.from({ length: 40 }, async () => {
          const { status, headers } = await fetch(`${production}/v1/pets`, {
            headers: { ...bearer(key), connection: "close" },
          });
          return [status, Number(headers.get("x-ratelimit-remaining"))];
        }),
      );
      const left = Array.from({ length: 40 }, (_, i) => [200, 999 - i]);
      assert.deepEqual(
        asked.sort(([, a = 0], [, b = 0]) => b - a),
        left,
      );
      assert.equal(await used(gateway), 40);
      quiet(await gateway.stop());
    },
  );

  it.each(nodes)(
    "brings up the demo with its pets, and says nothing on stderr: $version",
    async (node) => {
      const { folder, start } = await install(node);
      const ports = await freePorts(5);
      const [production, staging, productionUpstream, stagingUpstream, admin] = ports as [
        ...[number, number, number, number, number],
      ];
      const text = configText({ production, staging, productionUpstream, stagingUpstream, admin });
      await writeFile(join(folder, "config/tollgate.yaml"), text);
      await using demo = start("demo");
      await demo.line(({ msg }) => msg === "serving");
      const [, key = ""] = /Bearer (\S+?)['"]/.exec(demo.stdout()) ?? [];
      const { production: url } = await urlsOf(demo);
      const answer = await fetch(`${url}/v1/pets`, { headers: bearer(key) });
      assert.equal(answer.status, 200);
      assert.ok(Array.isArray(await answer.json()));
      quiet(await demo.stop());
    },
  );

  it.each(nodes)("is embedded, and says nothing on stderr: $version", async (node) => {
    const { folder, issue } = await install(node, {
      keys: "./keys.json",
      stateFile: "./state.json",
      environments: { production: environment("live") },
      plans: { free: { minute: 60 } },
    });
    const key = await issue("production");
    await writeFile(
      join(folder, "embed.mjs"),
      `import { start } from "tollgate";
      const gateway = await start({ configFile: "config/tollgate.yaml" });
      const headers = { authorization: "Bearer ${key}" };
      const { status } = await fetch(gateway.urls.production + "/v1/pets", { headers });
      await gateway.stop();
      console.log("status " + status);`,
    );
    const said = quiet(await startProgram(programOf(node), ["embed.mjs"], { cwd: folder }).exited);
    assert.match(said, /^status 200$/m);
  });
});
