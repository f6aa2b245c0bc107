import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, test } from "vitest";
import { runTollgate } from "../support/gateway/processes.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";
import { sendRequest } from "../support/wire/client.ts";

const PASSWORD = "canary-of-the-store";
const TOKEN = "canary-of-the-admin-listener-0123456789";
const ENV = { STORE_PASSWORD: PASSWORD, TOLLGATE_ADMIN_TOKEN: TOKEN };

let redis: TestRedis;
let served: SpawnedGateway;
beforeAll(async () => {
  redis = await startRedis({ args: ["--requirepass", PASSWORD] });
  const store = `redis://:\${STORE_PASSWORD}@127.0.0.1:${redis.port}`;
  const admin = { listen: "127.0.0.1:0", token: `\${TOLLGATE_ADMIN_TOKEN}` };
  const config = { store, admin, workers: 2 };
  served = await spawnGateway({ upstreams: ["http://127.0.0.1:9"], config, run: { env: ENV } });
});
afterAll(async () => {
  await served[Symbol.asyncDispose]();
  await redis.close();
});

/** The command lines of a process and all that it started, by its id. */
function commandLines(pid: number): Map<number, string> {
  const found = new Map<number, string>();
  for (const name of readdirSync("/proc").filter((each) => /^\d+$/.test(each))) {
    try {
      const parent = Number(
        readFileSync(`/proc/${name}/stat`, "latin1").split(") ")[1]?.split(" ")[1],
      );
      if (Number(name) !== pid && parent !== pid) continue;
      found.set(Number(name), readFileSync(`/proc/${name}/cmdline`, "latin1"));
    } catch {
      // It ended meanwhile.
    }
  }
  return found;
}

test("secrets from the environment work, and are on no command line, of workers neither", async () => {
  assert.equal(
    (await sendRequest(served.port, { key: KEY })).status,
    502,
    "the store took the password",
  );
  if (!existsSync("/proc/self/cmdline")) return;
  const lines = commandLines(served.running.pid);
  assert.ok(lines.size >= 3, `${lines.size} processes`);
  for (const [pid, line] of lines) {
    for (const secret of [PASSWORD, TOKEN, KEY])
      assert.ok(!line.includes(secret), `${pid}: ${line}`);
  }
});

test("the configuration is told with its secrets masked, its mistakes without them", async () => {
  const headers = { Authorization: `Bearer ${TOKEN}` };
  const response = await fetch(`${served.adminUrl}/api/config`, { headers });
  const text = await response.text();
  assert.equal(response.status, 200);
  assert.ok(!text.includes(PASSWORD) && !text.includes(TOKEN), text);
  for (const STORE_PASSWORD of [`${PASSWORD}@@`, `${PASSWORD} x`, `${PASSWORD}/%zz`]) {
    const env = { ...ENV, STORE_PASSWORD };
    const { stdout, stderr } = await runTollgate(["check", "--config", served.file], { env });
    assert.ok(!(stdout + stderr).includes(PASSWORD), stdout + stderr);
  }
  assert.equal((await fetch(`${served.adminUrl}/api/config`)).status, 401);
});

test("no verb takes a secret as an argument, and files with secrets are for their owner only", async () => {
  const { stdout } = await runTollgate(["--help"]);
  assert.ok(!/--(token|password|key|secret)\b/.test(stdout), stdout);
  const args = [
    "keys",
    "create",
    "--env",
    "production",
    "--plan",
    "free",
    "--json",
    "--config",
    served.file,
  ];
  const { code, stdout: made } = await runTollgate(args, { env: ENV });
  assert.equal(code, 0);
  const { key } = JSON.parse(made) as { key: string };
  const file = join(served.directory, "keys.json");
  assert.ok(!(await readFile(file, "utf8")).includes(key.slice(10)));
  assert.equal((await stat(file)).mode & 0o077, 0);
});
