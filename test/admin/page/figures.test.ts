import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it, onTestFinished, vi } from "vitest";

type Reading = {
  readonly atMs: number;
  readonly answered: Readonly<Record<string, number>>;
  readonly ownAnswers: Readonly<Record<string, number>>;
  readonly bans: { readonly imposed: number; readonly inForce: number };
  readonly durations: { readonly counts: readonly number[]; readonly sum: number };
};
type Sample = Readonly<Record<string, number | null>>;

/** The modules of the page are no TypeScript. These need no browser. */
const { lonely, samplesOf, withGaps } = (await import(
  "../../../src/admin/page/parts/samples.js" as string
)) as {
  lonely: (values: readonly (number | null)[]) => number[];
  samplesOf: (readings: readonly Reading[], bounds: readonly number[]) => Sample[];
  withGaps: (samples: readonly { readonly at: number }[]) => object[];
};
const { milliseconds, perSecond } = (await import(
  "../../../src/admin/page/parts/format.js" as string
)) as Readonly<Record<"milliseconds" | "perSecond", (value: unknown) => string>>;
const { limits, limitsText, parseLimits } = (await import(
  "../../../src/admin/page/parts/limits.js" as string
)) as {
  limits: (value: unknown) => string;
  limitsText: (own: object) => string;
  parseLimits: (text: string) => object;
};
const { guessClock, keepTimes, now, relative, setClock } = (await import(
  "../../../src/admin/page/parts/times.js" as string
)) as {
  guessClock: (date: string | null) => void;
  keepTimes: () => void;
  now: () => number;
  relative: (unixSeconds: number) => string;
  setClock: (gatewayMs: number) => void;
};

const AT_MS = Date.UTC(2026, 10, 21);
const START: Reading = {
  atMs: AT_MS,
  answered: { 200: 10 },
  ownAnswers: {},
  bans: { imposed: 1, inForce: 1 },
  durations: { counts: [10, 0, 0, 0], sum: 0.1 },
};
const BOUNDS = [0.01, 0.1, 1];

/** The storage of a tab. */
const kept = new Map<string, string>();
const sessionStorage = {
  getItem: (name: string) => kept.get(name) ?? null,
  setItem: (name: string, value: string) => void kept.set(name, value),
};
Object.defineProperty(globalThis, "sessionStorage", { value: sessionStorage });
const { Api } = (await import("../../../src/admin/page/parts/api.js" as string)) as {
  Api: new (
    askToken: () => Promise<string>,
  ) => {
    get: (url: string) => Promise<unknown>;
    open: (url: string, signal: AbortSignal) => Promise<Response>;
  };
};

describe("the admin token", () => {
  it("is asked for once, though a request with the old one is refused after the new one was given", async () => {
    const arrived = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const server = createServer(async ({ url, headers }, response) => {
      const isRefused = headers.authorization !== "Bearer renewed";
      if (isRefused && url === "/slow") {
        arrived.resolve();
        await release.promise;
      }
      response.writeHead(isRefused ? 401 : 200).end("{}");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      let asked = 0;
      const api = new Api(async () => {
        asked += 1;
        return "renewed";
      });
      const slow = api.get(`${url}/slow`);
      await arrived.promise;
      await api.get(`${url}/fast`);
      release.resolve();
      await slow;
      assert.deepEqual([asked, [...kept.values()]], [1, ["renewed"]]);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });
});

describe("a stream", () => {
  it("that is given up is asked for no longer", async () => {
    const server = createServer((request, response) => {
      request.once("close", () => response.end());
      aborted.abort();
      setTimeout(() => response.end(), 500);
    });
    const aborted = new AbortController();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const api = new Api(async () => "");
    try {
      await assert.rejects(api.open(url, aborted.signal), { code: "unreachable" });
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });
});

describe("a sample of the plots", () => {
  it("has the rates between two readings, each refusal where it belongs", () => {
    const end: Reading = {
      atMs: AT_MS + 2_000,
      answered: { 200: 70, 401: 2, 403: 4, 429: 8, 499: 2, 500: 2, 502: 4 },
      ownAnswers: { 200: 9, 401: 2, 403: 4, 429: 8, 502: 6 },
      bans: { imposed: 5, inForce: 3 },
      durations: START.durations,
    };
    const [sample] = samplesOf([START, end], BOUNDS);
    const { at, requests, failed, refused, limited, strangers, imposed, banned } = sample ?? {};
    assert.deepEqual(
      { at, requests, failed, refused, limited, strangers, imposed, banned },
      {
        ...{ at: AT_MS / 1_000 + 2, requests: 41, failed: 3, refused: 10 },
        ...{ limited: 4, strangers: 3, imposed: 2, banned: 3 },
      },
    );
  });

  it("has the mean, and the bounds below which 95 % and 99 % of the answers are", () => {
    const latencies = (counts: readonly number[], sum: number) => {
      const durations = { counts: counts.map((n, i) => n + (START.durations.counts[i] ?? 0)), sum };
      const [sample] = samplesOf([START, { ...START, atMs: AT_MS + 1_000, durations }], BOUNDS);
      return [sample?.mean, sample?.p95, sample?.p99];
    };
    assert.deepEqual(latencies([95, 4, 1, 0], 0.3), [2, 10, 100]);
    assert.deepEqual(latencies([94, 4, 2, 0], 0.3), [2, 100, 1_000]);
    assert.deepEqual(latencies([90, 4, 4, 2], 0.3), [2, 1_000, Number.POSITIVE_INFINITY]);
    assert.deepEqual(latencies([0, 0, 0, 0], 0.1), [null, null, null], "nothing was answered");
  });

  it("is left out where a gateway that restarted has answered more requests than the one before", () => {
    for (const other of [
      { answered: { 503: 999 } },
      { answered: { 200: 9, 503: 999 } },
      { answered: { 200: 999 }, bans: { imposed: 0, inForce: 9 } },
    ]) {
      assert.deepEqual(samplesOf([START, { ...START, atMs: AT_MS + 1_000, ...other }], BOUNDS), []);
    }
  });

  it("is left out where the gateway restarted, or where two readings are of one moment", () => {
    const less = { ...START, atMs: AT_MS + 1_000, answered: { 200: 9 } };
    assert.deepEqual(samplesOf([START, less], BOUNDS), []);
    assert.deepEqual(samplesOf([START, { ...START, atMs: AT_MS + 199 }], BOUNDS), []);
    assert.equal(samplesOf([START, { ...START, atMs: AT_MS + 200 }], BOUNDS).length, 1);
  });
});

describe("the samples of a plot", () => {
  it("are joined over 12 s, and have an empty one between them over a longer time", () => {
    const samples = [100, 112, 124.5, 130].map((at) => ({ at, requests: 1 }));
    const [first, second, ...others] = samples;
    assert.deepEqual(withGaps(samples), [first, second, { at: 113 }, ...others]);
    assert.deepEqual(withGaps([]), []);
  });

  it("are points where a value has no neighbour on either side, and nowhere else", () => {
    assert.deepEqual(lonely([1, 2, 3, null, 0, null, 5, 6]), [4]);
    assert.deepEqual(lonely([7, null, null, 8]), [0, 3]);
  });
});

describe("numbers for people", () => {
  it("have the unit and the digits that their size needs", () => {
    const times = [null, 0.5, 9.94, 12.4, 999, 1_000, 9_900, 12_000, Number.POSITIVE_INFINITY];
    assert.deepEqual(times.map(milliseconds), [
      ...["–", "0.5 ms", "9.9 ms", "12 ms", "999 ms", "1.0 s", "9.9 s", "12 s", "over 10 s"],
    ]);
    const rates = [undefined, 0, 0.256, 1.25, 9.96, 12.4, 1_540];
    assert.deepEqual(rates.map(perSecond), [
      ...["–", "0/s", "0.26/s", "1.3/s", "10/s", "12/s", "1.5K/s"],
    ]);
  });

  it("tell the limits of a plan with its meters, its room, and what is included and observed", () => {
    const plan = {
      ...{ minute: 60, day: 1_000, concurrent: 5 },
      meters: { tokens: { month: 9_000 }, rows: "unlimited" },
      ...{ included: { month: 500 }, observe: { minute: 30 } },
    };
    assert.equal(
      limits(plan),
      "60 a minute, 1,000 a day, 9,000 tokens a month, rows without a limit, 5 at once, included: 500 a month, observed: 30 a minute",
    );
    assert.equal(limits({ "tokens.month": 5 }), "5 tokens a month");
    assert.equal(limits("custom"), "agreed per account");
    assert.equal(limits({ custom: true, concurrent: 2 }), "agreed per account, 2 at once");
  });

  it("are read as they are written, and a pair that has no whole number is refused by its name", () => {
    const own = { minute: 5, "tokens.month": 9_000 };
    assert.equal(limitsText(own), "minute=5, tokens.month=9000");
    assert.deepEqual(parseLimits(limitsText(own)), own);
    assert.deepEqual(parseLimits(" day = 20 ,, "), { day: 20 });
    for (const pair of ["day=2e4", "hour", "hour=", "=5", "day=1.5", "day=-1", "day=5=6"]) {
      assert.throws(() => parseLimits(`minute=5, ${pair}, year=7`), {
        message: `Cannot use ${pair}: expected a window and a whole number, as in minute=500`,
      });
    }
  });

  it("are refused if they name a window twice, as by the command line", () => {
    for (const text of [
      "minute=9, minute=3",
      "day=5, minute=3, day=5",
      "tokens.day=1,tokens.day=2",
    ]) {
      assert.throws(() => parseLimits(text), {
        message: "Cannot use two limits for one window: give each window once",
      });
    }
    assert.deepEqual(parseLimits("day=5, tokens.day=5"), { day: 5, "tokens.day": 5 });
  });
});

describe("an instant for people", () => {
  it("is as far from the clock of the gateway as its nearest second, in the greatest unit", () => {
    setClock(Date.UTC(2030, 0, 1));
    const from = (seconds: number) => relative(now() + seconds);
    assert.deepEqual([0.4, -0.4, 0.6, -0.6].map(from), ["now", "now", "in 1 s", "1 s ago"]);
    assert.deepEqual([59.3, 59.7, -3_599.7].map(from), ["in 59 s", "in 1 min", "1 h ago"]);
    assert.deepEqual([86_399.7, -2.9 * 86_400].map(from), ["in 1 d", "2 d ago"]);
  });

  it("keeps to the clock of the figures, which the date of an answer does not change", () => {
    const gatewayMs = Date.UTC(2030, 0, 1);
    setClock(gatewayMs);
    guessClock("Tue, 01 Jan 2019 00:00:00 GMT");
    guessClock(null);
    assert.ok(Math.abs(now() - gatewayMs / 1_000) < 60);
  });

  it("is told anew each second, and drawn again only as its words change", () => {
    vi.useFakeTimers({ toFake: ["setInterval", "Date"] });
    let writes = 0;
    let text = "";
    const element = {
      dataset: { unix: String(now() + 7_200.9) },
      get textContent() {
        return text;
      },
      replaceChildren(written: string) {
        writes += 1;
        text = written;
      },
      contains: () => false,
      querySelectorAll: () => [],
    };
    vi.stubGlobal("document", { querySelectorAll: () => [element] });
    vi.stubGlobal("getSelection", () => ({ isCollapsed: true }));
    onTestFinished(() => {
      vi.useRealTimers();
      vi.unstubAllGlobals();
    });
    keepTimes();
    const told = [999, 1, 1_000, 1_000].map((ms) => {
      vi.advanceTimersByTime(ms);
      return [text, writes];
    });
    assert.deepEqual(told, [
      ["", 0],
      ["in 2 h", 1],
      ["in 1 h", 2],
      ["in 1 h", 2],
    ]);
  });
});
