import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { VERSION } from "openai/version";
import { afterAll, beforeAll, describe, it } from "vitest";
import { WINDOW_NAMES } from "../../src/core/quota/windows.ts";
import { REFUSALS } from "../../src/core/refusal-table.ts";
import { each } from "../support/each.ts";
import { startTestUpstream, type TestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { startProgram } from "../support/gateway/processes.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { needing } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";

const PAGE = join(import.meta.dirname, "../../docs/for-your-users.md");
const ASKED = 6;

type Language = {
  readonly file: string;
  readonly fence: string;
  readonly needs: string;
  readonly command: readonly [string, ...string[]];
};

const LANGUAGES: readonly Language[] = [
  { file: "call.sh", fence: "sh", needs: "curl", command: ["bash", "call.sh"] },
  { file: "call.mjs", fence: "js", needs: "bash", command: [process.execPath, "call.mjs"] },
  { file: "call.py", fence: "python", needs: "python3", command: ["python3", "call.py"] },
  { file: "call.go", fence: "go", needs: "go", command: ["go", "run", "call.go"] },
];

describe("the page for the users of an API", () => {
  let page: string;
  let folder: string;
  let upstream: TestUpstream;
  let gateway: SpawnedGateway;

  beforeAll(async () => {
    page = await readFile(PAGE, "utf8");
    folder = await mkdtemp(join(tmpdir(), "tollgate-users-"));
    upstream = await startTestUpstream();
    gateway = await spawnGateway({
      upstreams: [upstream.origin],
      api: null,
      config: {
        // Few enough that a program on a slow machine is refused too.
        plans: { vectors: { second: 1, day: 1_000 } },
        bans: { strikes: 4, within: "1m", grace: "1s", duration: "10m" },
      },
    });
  });
  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await upstream?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  function programOf(file: string, fence: string): string {
    const text = new RegExp(`\`${file}\`:\n\n\`\`\`${fence}\n(.*?)\`\`\``, "s").exec(page)?.[1];
    assert.ok(text, `${file} is on the page`);
    return text;
  }

  /** The backend answers 503 once, and well from then on. */
  function answerOnce(fields: Readonly<Record<string, string>>): void {
    upstream.answer((_seen, response) => {
      response.writeHead(503, fields).end();
      upstream.answer((_next, well) => void well.end());
    });
  }

  for (const { file, fence, needs, command } of LANGUAGES) {
    it(`has a loop that gets every answer and earns no ban: ${file}`, needing(needs), async () => {
      await writeFile(join(folder, file), programOf(file, fence));
      const [program, ...args] = command;
      const run = async () => {
        // RFC 9110 10.2.3: a date in place of seconds, as a backend may send it.
        answerOnce({ "Retry-After": new Date(Date.now() + 1_000).toUTCString() });
        const before = gateway.lines.length;
        const running = startProgram(program, args, {
          cwd: folder,
          env: { API_URL: `${gateway.url}/v1`, API_KEY: KEY, GOCACHE: join(folder, "cache") },
        });
        const { code, stdout, stderr } = await running.exited;
        assert.deepEqual([code, stdout], [0, "200\n".repeat(ASKED)], stderr);
        return eventually(() => {
          const lines = gateway.lines.slice(before);
          assert.equal(lines.filter(({ status }) => status === 200).length, ASKED);
          return lines.flatMap(({ code: refused }) => (refused ? [refused] : []));
        });
      };
      // One a second is admitted, so that the program is refused, and waits, unless the machine is so
      // slow that it asks once a second by itself.
      let codes = await run();
      for (let tries = 1; codes.length === 0 && tries < 5; tries++) codes = await run();
      assert.deepEqual([...new Set(codes)], ["rate_limited"]);
    });
  }

  for (const { file, fence, needs, command } of each(
    LANGUAGES.filter(({ fence }) => fence !== "sh"),
  )) {
    it(
      `has a loop whose calls stay away while a later answer prolongs their pause: ${file}`,
      needing(needs),
      async () => {
        let [asked, untilMs, early] = [0, 0, 0];
        await using api = await startTestUpstream((_seen, response) => {
          asked += 1;
          const nowMs = Date.now();
          if (nowMs < untilMs) early += 1;
          if (asked > ASKED) return void response.end();
          // The first refusal ends the wait of its call before that of the others has passed.
          const isFirst = asked === 1;
          const refuse = () => {
            if (!isFirst) untilMs ||= Date.now() + 2_900;
            response.writeHead(429, { "Retry-After": isFirst ? "1" : "3" }).end();
          };
          setTimeout(refuse, isFirst ? 0 : 500);
        });
        await writeFile(join(folder, file), programOf(file, fence));
        const [program, ...args] = command;
        const env = { API_URL: api.origin, API_KEY: KEY, GOCACHE: join(folder, "cache") };
        const { stdout } = await startProgram(program, args, { cwd: folder, env }).exited;
        assert.deepEqual([stdout, early], ["200\n".repeat(ASKED), 0]);
      },
    );
  }

  it("has a loop in JavaScript that waits out a year, for which a timer of Node is too short", async () => {
    answerOnce({ "Retry-After": String(366 * 86_400) });
    await writeFile(join(folder, "year.mjs"), programOf("call.mjs", "js"));
    // Ends the program at its first wait that is no refusal's of this gateway, and names it.
    const preload = `import timers from "node:timers/promises";
      import { syncBuiltinESMExports } from "node:module";
      const { setTimeout } = timers;
      timers.setTimeout = (ms) => {
        if (ms < 60_000) return setTimeout(ms);
        console.log("waits", ms);
        process.exit();
      };
      syncBuiltinESMExports();`;
    const data = `data:text/javascript,${encodeURIComponent(preload)}`;
    const env = { API_URL: `${gateway.url}/v1`, API_KEY: KEY };
    const args = ["--import", data, "year.mjs"];
    const { stdout } = await startProgram(process.execPath, args, { cwd: folder, env }).exited;
    assert.equal(stdout, `waits ${2 ** 31 - 1}\n`);
  });

  it("says truly how the OpenAI client repeats above a minute of Retry-After, what stops it, and which of it are strikes", async () => {
    assert.match(page, /^\| `openai` .* from 7\.5 on \| repeats the call.*\|$/m);
    assert.match(page, /Turn that off with `maxRetries: 0`/);
    assert.match(VERSION, /^7\.(?:[5-9]|\d\d)\./, "the page says it of another version");
    let nowMs = Date.UTC(2026, 5, 1, 12, 58, 59);
    const meters = { tokens: { hold: 1, max: 1, used: ["header x-used"] } };
    await using house = await startTestGateway({
      now: () => nowMs,
      config: {
        plans: { free: { hour: 1 }, model: { hour: 100, meters: { tokens: { hour: 1 } } } },
        bans: { strikes: 9, within: "1m", grace: "1ms", duration: "1h" },
      },
      environment: { api: null, costs: [{ match: "GET /v1/model", meters }] },
    });
    const given: (string | null)[] = [];
    const call = async (
      apiKey: string,
      path: string,
      options: { readonly maxRetries?: number },
    ) => {
      const client = new OpenAI({
        ...{ apiKey, baseURL: `${house.url}/v1`, ...options },
        fetch: async (url, init) => {
          const response = await fetch(url, init);
          given.push(response.headers.get("Retry-After"));
          nowMs += 10;
          return response;
        },
      });
      await client.get(path);
    };
    const strikes: (number | undefined)[] = [];
    for (const [plan, path] of [
      ["free", "/orders"],
      ["model", "/model"],
    ] as const) {
      const { key } = await house.issue({ plan });
      await call(key, path, {});
      await assert.rejects(call(key, path, {}), OpenAI.RateLimitError);
      assert.deepEqual(given.splice(0), [null, "61", "61", "61"]);
      await assert.rejects(call(key, path, { maxRetries: 0 }), OpenAI.RateLimitError);
      assert.deepEqual(given.splice(0), ["61"]);
      await eventually(() => assert.equal(house.lines.length, 5));
      strikes.push(house.lines.splice(0).at(-1)?.strikes);
    }
    assert.deepEqual(strikes, [3, 0]);
  });

  it("names every status that the table of refusals gives to a client with a key", async () => {
    for (const status of [401, 403, 410, 429, 502, 503, 504]) {
      assert.match(page, new RegExp(`^\\| [0-9, ]*${status}\\b`, "m"), String(status));
    }
  });

  it("has a row for every code of its statuses below 500, and every kind of window", async () => {
    const statuses: readonly number[] = [401, 403, 410, 429];
    const codes = Object.entries(REFUSALS).filter(([, { status }]) => statuses.includes(status));
    for (const [code, { status }] of each(codes)) {
      assert.match(page, new RegExp(`^\\| ${status} \\| .*\`${code}\``, "m"), code);
    }
    const row = page.split("\n").find((line) => line.startsWith("| `X-RateLimit-Window` |"));
    for (const label of [...WINDOW_NAMES, "ban", "createOrder.minute", "tokens.day", "key.day"]) {
      assert.ok(row?.includes(`\`${label}\``), label);
    }
  });
});
