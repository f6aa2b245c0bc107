import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { COMPILED } from "./compiled-code.ts";
import { startRedis } from "./redis/redis.ts";

/** Named for the Node that compiled, because each keeps code of its own. */
const DONE = join(COMPILED, `ahead-${process.version}`);
const MAIN = join(import.meta.dirname, "../../src/main.ts");
/** A gateway that does not start fails its own tests, which say more. */
const WAIT_MS = 60_000;

/**
 * Vitest calls this once, before any test. Compiles for the processes that the tests start. Node
 * writes at a clean end, and only what is not there yet: of gateways that begin side by side each
 * would compile by itself, one that is killed writes nothing, and a command that does little in a
 * module would leave little of its code to those that come later. So gateways come first.
 */
export async function setup(): Promise<void> {
  if (await isDone()) return;
  const folder = await mkdtemp(join(tmpdir(), "tollgate-ahead-"));
  const redis = await startRedis();
  try {
    const [shared, single] = [join(folder, "shared.yaml"), join(folder, "single.yaml")];
    await writeFile(shared, configText(redis.url, "redis", 2));
    await writeFile(single, configText("memory", "./keys.json", 1));
    await runGateway(shared);
    await runGateway(single);
    const terms = ["--env", "production", "--plan", "free", "--config", single];
    await runVerb(["keys", "create", ...terms]);
    await runVerb(["pets", "--listen", "127.0.0.1:0"], async (said) => said.includes("127.0.0.1:"));
    await writeFile(DONE, "");
  } finally {
    await redis.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function isDone(): Promise<boolean> {
  return access(DONE).then(
    () => true,
    () => false,
  );
}

function configText(store: string, keys: string, workers: number): string {
  const listen = '"127.0.0.1:0"';
  return `store: ${store}
storeTimeout: 1s
keys: ${keys}
stateFile: ./state.json
workers: ${workers}
environments:
  production: { listen: ${listen}, basePath: /v1, keyTag: live, upstreams: ["http://127.0.0.1:9"] }
plans: { free: { minute: 60 } }
admin: { listen: ${listen} }
`;
}

/** Starts a gateway, asks it once for each of its two listeners, and ends it. */
function runGateway(file: string): Promise<void> {
  return runVerb(["start", "--config", file], async (said) => {
    const whole = said.split("\n").slice(0, -1);
    const line = whole.find((text) => text.includes('"msg":"serving"'));
    if (line === undefined) return false;
    const { urls, admin } = JSON.parse(line) as { urls: { production: string }; admin: string };
    for (const url of [`${urls.production}/v1/pets`, `${admin}/metrics`]) {
      await (await fetch(url)).text();
    }
    return true;
  });
}

/** Runs a verb to its end, or until what it `said` is enough: it is then told to end. */
async function runVerb(
  args: readonly string[],
  isEnough?: (said: string) => Promise<boolean>,
): Promise<void> {
  const env = { PATH: process.env.PATH, NODE_COMPILE_CACHE: COMPILED };
  const child = spawn(process.execPath, [MAIN, ...args], {
    env,
    stdio: ["ignore", "pipe", "ignore"],
    timeout: WAIT_MS,
  });
  const ended = once(child, "close");
  let said = "";
  for await (const text of child.stdout.setEncoding("utf8")) {
    said += text;
    if (isEnough === undefined || !(await isEnough(said))) continue;
    child.kill("SIGTERM");
    break;
  }
  child.stdout.resume();
  await ended;
}
