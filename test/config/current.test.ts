import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, it } from "vitest";
import { parse } from "yaml";
import { loadConfig } from "../../src/config/load/load.ts";
import { configSchema } from "../../src/config/schema/json-schema.ts";
import { brokenFiles } from "./expected.ts";
import { ENVIRONMENTS, loadFiles, loadLines, PLANS } from "./folder.ts";

const SHIPPED = fileURLToPath(new URL("../../config/tollgate.yaml", import.meta.url));

const validate = new Ajv2020({ strict: false }).compile(configSchema());
const accepts = (text: string): boolean => validate(parse(text));

describe("the JSON Schema", () => {
  it("accepts the shipped configuration, references and all", () => {
    assert.equal(accepts(readFileSync(SHIPPED, "utf8")), true);
  });

  it("is JSON Schema 2020-12 and refuses keys that are not there, at every level", () => {
    const { $schema } = configSchema();
    assert.equal($schema, "https://json-schema.org/draft/2020-12/schema");
    const maps = (value: unknown): Record<string, unknown>[] => {
      if (typeof value !== "object" || value === null) return [];
      const inner = Object.values(value).flatMap(maps);
      return "properties" in value && "type" in value ? [{ ...value }, ...inner] : inner;
    };
    const found = maps(configSchema());
    assert.ok(found.length >= 9);
    for (const map of found) assert.equal(map.additionalProperties, false);
  });

  it("describes every key", () => {
    const words = JSON.stringify(configSchema());
    assert.doesNotMatch(words, /"description":""/);
    for (const [key, value] of Object.entries(configSchema().properties as object)) {
      assert.ok(value.description, key);
    }
  });

  for (const name of [
    "unknown-key",
    "limit-of-a-word",
    "bans-duration-unknown-unit",
    "log-level",
  ]) {
    it(`refuses ${name} as the gateway does`, () => {
      const file = brokenFiles("broken").find((one) => one.name === name);
      assert.ok(file);
      assert.equal(accepts(file.text), false);
    });
  }
});

describe("check and the schema agree on", () => {
  const rows: readonly (readonly [lines: string, isFine: boolean])[] = [
    ['foreignKeys: [{ prefix: sk_, min: "22" }]', true],
    [`foreignKeys: [{ prefix: "\${PREFIX:-sk_}", min: "\${MIN:-22}" }]`, true],
    ['foreignKeys: [{ prefix: sk_, min: "few" }]', false],
    ['plans: { free: { minute: "60" } }', true],
    ['plans: { free: { minute: "sixty" } }', false],
    ['plans: { free: { minute: " 60" } }', false],
    ["plans: { free: { minute: 60, concurrent: 5, observe: { day: 500 } } }", true],
    ["plans: { free: { concurrent: 5 } }", false],
    ["plans: { free: { observe: { minute: 60 } } }", false],
    ["plans: { free: { concurrent: 5, observe: { minute: 60 } } }", false],
    ["plans: { free: {} }", false],
    ["plans: { free: { custom: true, concurrent: 20 } }", true],
    ["plans: { free: { custom: true, observe: { minute: 60 } } }", true],
    ["plans: { free: { custom: true, minute: 60 } }", false],
    ['bans: { factor: "1.5" }', true],
    ['bans: { factor: "1,5" }', false],
    ['bans: { observe: "true" }', true],
    ['bans: { observe: "yes" }', false],
    ['admin: { hosts: ["[::1]"] }', true],
    ['admin: { hosts: ["[:::::1]"] }', false],
    ['admin: { hosts: ["a\\u202eb"] }', false],
    ["keyHeaders: [x-api-key]", true],
    ["keyHeaders: [X-Api-Key]", true],
    ["foreignKeys: [{ prefix: sk_ }]", true],
    ["foreignKeys: off", true],
    ["history: 400d", true],
    ["history: off", true],
    ["history: forever", false],
    ["events: { url: https://a.test/x, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz }", true],
    ["events: { url: https://a.test/x, secret: hush }", false],
    ["telemetry: { otlp: http://collector:4318 }", true],
    ["telemetry: { otlp: collector }", false],
  ];
  for (const [lines, isFine] of rows) {
    it(`${isFine ? "taking" : "refusing"} ${lines}`, async () => {
      const text = `${ENVIRONMENTS}${lines.startsWith("plans") ? "" : PLANS}${lines}\n`;
      assert.equal((await loadFiles({ "tollgate.yaml": text })).ok, isFine);
      assert.equal(accepts(text), isFine);
    });
  }

  it("numbers and booleans that a reference in quotes becomes", async () => {
    const lines = `bans: { factor: "\${F:-1.5}", observe: "\${C:-true}", strikes: "\${S}" }`;
    const { bans } = await loadLines(lines, { S: "7" });
    assert.deepEqual([bans?.factor, bans?.observe, bans?.strikes], [1.5, true, 7]);
    const told = await loadFiles(
      { "tollgate.yaml": `${ENVIRONMENTS}${PLANS}${lines}` },
      { S: "7.5" },
    );
    assert.match(
      told.ok ? "" : (told.mistakes[0]?.message ?? ""),
      /bans.strikes as a whole number/,
    );
  });
});

describe("the shipped configuration", () => {
  it("loads with an empty environment, without a warning", async () => {
    const loaded = await loadConfig(SHIPPED, {});
    assert.deepEqual(loaded.ok ? loaded.warnings : loaded.mistakes, []);
    assert.ok(loaded.ok);
    const { config } = loaded;
    assert.deepEqual(config.store, { kind: "memory", shown: "memory" });
    assert.deepEqual(config.keys, {
      in: "file",
      path: fileURLToPath(new URL("../../data/keys.json", import.meta.url)),
    });
    assert.equal(
      config.stateFile,
      fileURLToPath(new URL("../../data/state.json", import.meta.url)),
    );
    assert.deepEqual(config.admin, {
      listen: { host: "127.0.0.1", port: 9090 },
      token: "",
      hosts: [],
    });
  });

  it("has the plans of the pets API", async () => {
    const loaded = await loadConfig(SHIPPED, {});
    assert.ok(loaded.ok);
    const windows = (minute: number, day: number) => [
      { window: "minute", limit: minute },
      { window: "day", limit: day },
    ];
    assert.deepEqual(
      [...loaded.config.plans],
      [
        ["free", windows(60, 1_000)],
        ["pro", windows(300, 10_000)],
        ["business", windows(1_000, 100_000)],
        ["enterprise", "custom"],
      ],
    );
  });

  it("takes its Redis and its admin token from the environment", async () => {
    const token = "0123456789abcdef0123456789abcdef";
    const REDIS_URL = "redis://:secret@127.0.0.1:6379/1";
    const loaded = await loadConfig(SHIPPED, { REDIS_URL, TOLLGATE_ADMIN_TOKEN: token });
    assert.ok(loaded.ok);
    const { store, admin } = loaded.config;
    assert.deepEqual(store, {
      kind: "redis",
      url: REDIS_URL,
      shown: "redis://:***@127.0.0.1:6379/1",
    });
    assert.equal(admin?.token, token);
  });

  it("removes getPet at the first millisecond of 5 December 2030 UTC", async () => {
    const loaded = await loadConfig(SHIPPED, {});
    assert.ok(loaded.ok);
    for (const { routes } of loaded.config.environments) {
      const getPet = routes.operations?.find(({ operationId }) => operationId === "getPet");
      assert.equal(getPet?.template, "/v1/pets/{petId}");
      assert.equal(getPet?.lifecycle.deprecated, true);
      assert.equal(getPet?.lifecycle.sunsetMs, Date.UTC(2030, 11, 5));
    }
  });
});
