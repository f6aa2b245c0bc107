import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../../test/support/poll.ts";
import { type Gateway, makeKeys, say, startGateway } from "./house.ts";
import { openForgetfulBackend } from "./traffic.ts";

const STALL_MS_MAX = 20;
const WATCH = new URL("watch-loop.mjs", import.meta.url).pathname;

/** How long the event loop of a gateway stood still at most since it was asked last. */
async function stallMs({ running }: Gateway): Promise<number> {
  const before = running.stderr().length;
  running.child.kill("SIGUSR2");
  return eventually(() => {
    const told = /stall ([\d.]+) ms/.exec(running.stderr().slice(before));
    return told === null ? false : Number(told[1]);
  }) as Promise<number>;
}

async function call({ adminUrl }: Gateway, method: string, path: string, body?: unknown) {
  const response = await fetch(adminUrl + path, {
    method,
    headers: { "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 200)}`);
  return { body: JSON.parse(text) as Record<string, string>, link: response.headers.get("link") };
}

async function listAll(gateway: Gateway): Promise<number> {
  let pages = 0;
  for (let path: string | undefined = "/api/keys?limit=1000"; path !== undefined; pages++) {
    const { link } = await call(gateway, "GET", path);
    path = /<([^>]+)>; rel="next"/.exec(link ?? "")?.[1];
  }
  return pages;
}

/** So many keys listed, changed and reloaded, and how long the gateway stands still for it. */
export async function measureKeys(count: number): Promise<string[]> {
  await using closing = new AsyncDisposableStack();
  const backend = await openForgetfulBackend();
  closing.defer(() => backend.close());
  const keys = makeKeys([{ plan: "free", count }]);
  const gateway = await startGateway({
    upstream: backend.origin,
    keysText: keys.text,
    config: { plans: { free: { minute: 60, month: 10 ** 9 } } },
    node: ["--import", WATCH],
  });
  closing.use(gateway);
  const [first = ""] = keys.of("free");
  const works: readonly (readonly [string, () => Promise<unknown>])[] = [
    ["nothing", () => sleep(3_000)],
    ["listed whole", () => listAll(gateway)],
    [
      "one issued",
      () => call(gateway, "POST", "/api/keys", { environment: "production", plan: "free" }),
    ],
    ["one rotated", () => call(gateway, "POST", "/api/keys/k_free_1/rotate", {})],
    ["one revoked", () => call(gateway, "POST", "/api/keys/k_free_2/revoke", {})],
    [
      "an account changed",
      () => call(gateway, "PATCH", "/api/accounts/free-3", { limits: { minute: 5 } }),
    ],
    ["all accounts listed", () => call(gateway, "GET", "/api/accounts?limit=1000")],
    ["found by its text", () => call(gateway, "POST", "/api/keys/find", { key: first })],
    ["configuration reloaded", () => call(gateway, "POST", "/api/reload", {})],
    ["reloaded again", () => call(gateway, "POST", "/api/reload", {})],
  ];
  const worse: string[] = [];
  // The time that starting takes is no stall.
  await sleep(3_000);
  await stallMs(gateway);
  for (const [name, work] of works) {
    const startMs = performance.now();
    let failure = "";
    await work().catch((error: Error) => {
      failure = `, ${error.message}`;
    });
    const tookMs = performance.now() - startMs;
    // The file is read again by whoever watches it.
    await sleep(1_500);
    const stall = await stallMs(gateway);
    say(`${name}: ${tookMs.toFixed(0)} ms, the longest stall ${stall.toFixed(1)} ms${failure}`);
    if (stall > STALL_MS_MAX || failure !== "")
      worse.push(`${name}: ${stall.toFixed(1)} ms${failure}`);
  }
  return worse;
}
