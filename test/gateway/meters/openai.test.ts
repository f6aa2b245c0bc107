import assert from "node:assert/strict";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, it } from "vitest";
import { freshMetrics } from "../../admin/scrape.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { startLanguageModel } from "../../support/gateway/language-model.ts";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

const USED = ["json /usage/total_tokens", "sse /usage/total_tokens"];
const MESSAGES = [{ role: "user" as const, content: "Hello?" }];

type Meter = { readonly hold: number; readonly max: number; readonly untold?: "hold" | "max" };
type Shared = AsyncDisposable & {
  readonly houses: readonly TestGateway[];
  readonly clients: readonly OpenAI[];
  /** The units that the store has counted in the window of the meter. */
  used(): Promise<number>;
};

let prefixes = 0;

/** Gateways on one Redis, with an unmodified client for each, in front of one language model. */
async function openShared(
  gateways: number,
  meter: Meter,
  windows: Readonly<Record<string, number>>,
  { durationMs = 20, maxRetries = 0 } = {},
): Promise<Shared> {
  const model = await startLanguageModel({ durationMs });
  const storePrefix = `openai${prefixes++}`;
  const houses: TestGateway[] = [];
  for (let i = 0; i < gateways; i++) {
    houses.push(
      await startTestGateway({
        backend: model,
        config: {
          store: redis.url,
          storePrefix,
          plans: { free: { year: 1e9, meters: { tokens: windows } } },
        },
        environment: {
          api: null,
          costs: [
            { match: "POST /v1/chat/completions", meters: { tokens: { ...meter, used: USED } } },
          ],
        },
        keys: { [KEY]: { account: ACCOUNT } },
      }),
    );
  }
  const store = await redis.client();
  return {
    houses,
    clients: houses.map(({ url }) => {
      return new OpenAI({ apiKey: KEY, baseURL: `${url}/v1`, maxRetries });
    }),
    used: async () => {
      const [key = ""] = await store.keys(`${storePrefix}:*:production:${ACCOUNT}:m`);
      const fields = Object.entries(await store.hgetall(key));
      const [, window = ""] = fields.find(([name]) => name.startsWith("tokens")) ?? [];
      return Number(window.split(" ")[1] ?? 0);
    },
    [Symbol.asyncDispose]: async () => {
      for (const house of houses) await house[Symbol.asyncDispose]();
    },
  };
}

/** A completion that uses so many tokens; gives what the client was told of it. */
async function complete(client: OpenAI, tokens: number, isStream: boolean): Promise<number> {
  const asked = { model: "stand-in", messages: MESSAGES, max_tokens: tokens };
  if (!isStream) {
    const completion = await client.chat.completions.create(asked);
    assert.equal(completion.choices[0]?.message.content, "Hello.");
    return completion.usage?.total_tokens ?? 0;
  }
  const options = { stream: true, stream_options: { include_usage: true } } as const;
  let told = 0;
  let text = "";
  for await (const chunk of await client.chat.completions.create({ ...asked, ...options })) {
    text += chunk.choices[0]?.delta.content ?? "";
    told += chunk.usage?.total_tokens ?? 0;
  }
  assert.equal(text, "Hello.");
  return told;
}

/** Settled once the lines of all requests are written and the store has counted their sum. */
async function settled({ houses, used }: Shared, requests: number): Promise<number> {
  return await eventually(async () => {
    const lines = houses.flatMap((house) => house.lines);
    assert.equal(lines.length, requests);
    const sum = lines.reduce((all, { meters }) => {
      const { hold = 0, used: told, charged } = meters?.tokens ?? {};
      return all + (charged ?? told ?? hold);
    }, 0);
    assert.equal(await used(), sum);
    return sum;
  });
}

/** Fifty workers ask until each is refused. Gives the requests, and the tokens of those admitted. */
async function spend({ clients }: Shared, tokensOf: (request: number) => number) {
  let requests = 0;
  let told = 0;
  const work = async (worker: number) => {
    const client = clients[worker % clients.length] as OpenAI;
    for (;;) {
      const request = requests++;
      try {
        const tokens = await complete(client, tokensOf(request), request % 2 === 0);
        told += tokens;
      } catch (error) {
        assert.ok(error instanceof OpenAI.RateLimitError, String(error));
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: 50 }, (_, worker) => work(worker)));
  return { requests, told };
}

const ALONE = "tollgate_store_unavailable_decisions_total";

/**
 * Tries a claim about gateways that have their store. A machine that stands still for a second keeps
 * it from one, which counts by its share then, and says so: the claim is tried of others.
 */
async function whileStored(
  open: () => Promise<Shared>,
  claim: (shared: Shared) => Promise<void>,
): Promise<void> {
  for (let left = 4; ; left--) {
    await using shared = await open();
    try {
      return await claim(shared);
    } catch (error) {
      const metrics = await Promise.all(shared.houses.map((one) => freshMetrics(one.adminUrl)));
      const told = metrics.flatMap((each) => [...each].filter(([name]) => name.startsWith(ALONE)));
      const alone = told.reduce((sum, [, decisions]) => sum + decisions, 0);
      if (left === 0 || alone === 0) throw error;
    }
  }
}

describe("the openai client, unmodified", () => {
  const LIMIT = 40_000;
  const MAX = 1_600;

  for (const gateways of [1, 2, 4]) {
    for (const hold of [200, 800, MAX]) {
      const bound = Math.floor((LIMIT * (MAX - hold)) / hold);

      it(`stays in the bound with ${gateways} gateways, 50 requests at once and a hold of ${hold}`, async () => {
        const open = () => openShared(gateways, { hold, max: MAX }, { year: LIMIT });
        await whileStored(open, async (shared) => {
          const { requests, told } = await spend(
            shared,
            (request) => 100 + ((request * 337) % 1_400),
          );
          const used = await settled(shared, requests);
          assert.equal(used, told, "the store has counted what the clients were told");
          assert.ok(used <= LIMIT + bound, `${used} used`);
          // Nothing is under way any more: what is refused now does not fit. Gateways hear of what
          // another one gave back within a moment.
          let further = 0;
          while (LIMIT - used - further >= hold) {
            further += await eventually(() => complete(shared.clients[0] as OpenAI, hold, false));
          }
          await assert.rejects(complete(shared.clients[0] as OpenAI, 1, false), { status: 429 });
        });
      });
    }
  }

  it("reaches the bound, and does not pass it, where all that fits uses max at once", async () => {
    const hold = 800;
    const answers = { durationMs: 2_000 };
    const open = () => openShared(2, { hold, max: MAX }, { year: LIMIT }, answers);
    await whileStored(open, async (shared) => {
      const { requests, told } = await spend(shared, () => MAX);
      assert.equal(told, LIMIT + (LIMIT * (MAX - hold)) / hold);
      assert.equal(await settled(shared, requests), told);
    });
  });

  it("goes over by max for each request under way with a hold of 0, and by no more", async () => {
    const open = () => openShared(2, { hold: 0, max: MAX }, { year: LIMIT });
    await whileStored(open, async (shared) => {
      const { requests, told } = await spend(shared, () => MAX);
      assert.ok(told > LIMIT && told < LIMIT + 50 * MAX, `${told} used`);
      assert.equal(await settled(shared, requests), told);
    });
  });

  it("that does not ask for the usage of a stream takes untold", async () => {
    const meter = { hold: 100, max: MAX, untold: "max" } as const;
    await using shared = await openShared(1, meter, { year: LIMIT });
    const [client] = shared.clients as [OpenAI];
    const asked = { model: "stand-in", messages: MESSAGES, max_tokens: 5, stream: true } as const;
    for await (const _chunk of await client.chat.completions.create(asked));
    assert.equal(await settled(shared, 1), MAX);
  });

  it("waits as Retry-After says where a window is used up, and then passes", async () => {
    const meter = { hold: 60, max: 100 };
    await using shared = await openShared(1, meter, { second: 100 }, { maxRetries: 2 });
    const [client] = shared.clients as [OpenAI];
    for (let i = 0; i < 4; i++) assert.equal(await complete(client, 100, i % 2 === 0), 100);
    const { lines } = shared.houses[0] as TestGateway;
    const passed = () => lines.filter(({ status }) => status === 200);
    await eventually(() => assert.equal(passed().length, 4));
    const refused = lines.filter(({ status }) => status === 429);
    assert.ok(refused.length >= 2, `${refused.length} were refused`);
    // A second refusal in a row would mean that obeying Retry-After was not enough.
    lines.forEach(({ status }, i) => {
      if (status === 429) assert.equal(lines[i + 1]?.status, 200);
    });
  });

  it("waits a second for what requests under way hold, and then passes", async () => {
    const meter = { hold: 100, max: 100 };
    const times = { durationMs: 300, maxRetries: 2 };
    await using shared = await openShared(1, meter, { year: 150 }, times);
    const [client] = shared.clients as [OpenAI];
    const told = await Promise.all([complete(client, 10, false), complete(client, 10, true)]);
    assert.deepEqual(told, [10, 10]);
    const { lines } = shared.houses[0] as TestGateway;
    const held = lines.filter(({ code }) => code === "meter_held");
    assert.equal(held.length, 1);
    assert.equal(await settled(shared, 3), 20);
  });
});
