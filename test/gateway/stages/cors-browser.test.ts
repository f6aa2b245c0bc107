import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { BROWSERS } from "../../../scripts/needs.ts";
import { each } from "../../support/each.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";

/** A page's view of its calls: status and fields, or that the browser kept the answer from it. */
type Sight = {
  readonly status?: number;
  readonly remaining?: string | null;
  readonly retryAfter?: string | null;
  readonly code?: string;
  readonly failed?: string;
};

function page(gateway: string): string {
  return `<!doctype html><pre id="seen">waiting</pre><script type="module">
    const seen = [];
    const call = async (method, key) => {
      try {
        const headers = { Authorization: "Bearer " + key, "X-Request-Id": "page" };
        const answer = await fetch("${gateway}/v1/pets", { method, headers });
        const body = await answer.json();
        seen.push({
          status: answer.status,
          remaining: answer.headers.get("X-RateLimit-Remaining"),
          retryAfter: answer.headers.get("Retry-After"),
          code: body.code,
        });
      } catch (error) {
        seen.push({ failed: error.name });
      }
    };
    await call("GET", "${KEY}");
    await call("POST", "${KEY}");
    await call("GET", "${KEY}");
    await call("GET", "not-a-key-but-a-token");
    document.getElementById("seen").textContent = JSON.stringify(seen);
    document.title = "done";
  </script>`;
}

async function look(url: string): Promise<readonly Sight[]> {
  const browser = BROWSERS.find((name) => spawnSync(name, ["--version"]).status === 0);
  assert.ok(browser, "needs a browser: apt-get install chromium-headless-shell");
  const profile = await mkdtemp(join(tmpdir(), "tollgate-browser-"));
  const flags = [
    ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
    ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
    ...["--disable-dev-shm-usage", `--user-data-dir=${profile}`],
    ...["--virtual-time-budget=20000", "--dump-dom"],
  ];
  try {
    const child = spawn(browser, [...flags, url], { stdio: ["ignore", "pipe", "ignore"] });
    const timer = setTimeout(() => child.kill("SIGKILL"), 45_000);
    let dom = "";
    for await (const chunk of child.stdout) dom += String(chunk);
    clearTimeout(timer);
    const [, seen = dom] = /<pre id="seen">([^<]*)<\/pre>/.exec(dom) ?? [];
    return JSON.parse(seen) as Sight[];
  } finally {
    await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

describe("a page in a real browser", () => {
  it("calls the API with its key and reads its standing and its refusals; a page of another origin reads nothing", async () => {
    let gateway = "";
    const pages = createServer((_request, response) => {
      response.writeHead(200, { "Content-Type": "text/html" }).end(page(gateway));
    });
    await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
    const { port } = pages.address() as AddressInfo;
    try {
      await using house = await startTestGateway({
        environment: { cors: { origins: [`http://127.0.0.1:${port}`] } },
        keys: { [KEY]: { limits: [{ window: "day", limit: 2 }] } },
      });
      gateway = house.url;
      const seen = await look(`http://127.0.0.1:${port}/`);
      const [first, second, third, fourth] = seen;
      assert.deepEqual({ ...first, code: undefined }, sight(200, "1"));
      assert.deepEqual({ ...second, code: undefined }, sight(200, "0"));
      assert.equal(third?.status, 429);
      assert.equal(third.code, "rate_limited");
      assert.ok(Number(third.retryAfter) >= 1, "Retry-After is exposed");
      assert.equal(fourth?.status, 401);
      assert.equal(fourth.code, "key_invalid");
      await eventually(() => {
        const asked = house.lines.filter(({ method }) => method === "OPTIONS");
        assert.ok(asked.length >= 1, "the browser asked before it sent a key");
        assert.ok(asked.every(({ charged, status }) => charged === 0 && status === 204));
      });
      const before = house.lines.length;
      const other = await look(`http://localhost:${port}/`);
      assert.deepEqual(other, Array(4).fill({ failed: "TypeError" }));
      await eventually(() => assert.ok(house.lines.length > before));
      const late = house.lines.slice(before);
      assert.ok(
        each(late).every(({ method }) => method === "OPTIONS"),
        "no key was sent",
      );
      await house.law();
    } finally {
      pages.closeAllConnections();
      pages.close();
    }
  });
});

function sight(status: number, remaining: string) {
  return { status, remaining, retryAfter: null, code: undefined };
}
