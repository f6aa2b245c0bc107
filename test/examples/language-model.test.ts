import assert from "node:assert/strict";
import { join } from "node:path";
import OpenAI from "openai";
import { describe, it } from "vitest";
import { parse } from "yaml";
import { loadConfig } from "../../src/config/load/load.ts";
import { meterBounds } from "../../src/config/queries/meter-bounds.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { startLanguageModel } from "../support/gateway/language-model.ts";
import { eventually } from "../support/poll.ts";
import { readExample } from "./example-file.ts";

const FILE = join(import.meta.dirname, "../../examples/language-model/tollgate.yaml");

describe("the example of a language model", () => {
  it("is a configuration without a warning, with each limit of tokens passed at most by itself", async () => {
    const loaded = await loadConfig(FILE, {});
    assert.ok(loaded.ok, JSON.stringify(loaded));
    assert.deepEqual(loaded.warnings, []);
    const bounds = meterBounds(loaded.config).map(({ plan, window, over }) => [plan, window, over]);
    assert.deepEqual(bounds, [
      ["trial", "day", 50_000],
      ["pro", "day", 2_000_000],
      ["pro", "month", 20_000_000],
    ]);
  });

  it("counts the tokens that an unmodified client was told", async () => {
    const { plans, environments } = parse(readExample("language-model/tollgate.yaml"));
    const { costs, limits } = environments.production;
    await using house = await startTestGateway({
      backend: await startLanguageModel(),
      config: { plans },
      environment: { api: null, costs, limits },
    });
    const { key: apiKey } = await house.issue({ plan: "pro" });
    const client = new OpenAI({ apiKey, baseURL: `${house.url}/v1`, maxRetries: 0 });
    const messages = [{ role: "user" as const, content: "Hello?" }];
    const asked = { model: "any", messages, max_tokens: 123 };
    await client.chat.completions.create(asked);
    const options = { stream: true, stream_options: { include_usage: true } } as const;
    for await (const _ of await client.chat.completions.create({ ...asked, ...options }));
    for await (const _ of await client.chat.completions.create({ ...asked, stream: true }));
    await eventually(() => assert.equal(house.lines.length, 3));
    assert.deepEqual(
      house.lines.map(({ meters }) => meters?.tokens),
      [
        { hold: 8_000, used: 123 },
        { hold: 8_000, used: 123 },
        { hold: 8_000, charged: 16_000 },
      ],
    );
  });
});
