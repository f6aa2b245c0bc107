import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type ReadinessInputs, readinessChecks } from "../../src/telemetry/readiness.ts";

const WELL = { ok: true };

function observed(more: Partial<ReadinessInputs>): ReadinessInputs {
  return {
    reloadFailed: undefined,
    store: WELL,
    keys: WELL,
    upstreams: [],
    draining: false,
    ...more,
  };
}

/** "production:up" and "staging/v1/orders:down": an environment, a path, and how it is. */
function upstreams(...told: readonly string[]) {
  return told.map((text, i) => {
    const [, environment = "", backend, how] = /^(\w+)(\/[^:]+)?:(\w+)$/.exec(text) ?? [];
    const named = backend === undefined ? {} : { backend };
    return { environment, ...named, origin: `http://10.0.0.${i}:8000`, up: how === "up" };
  });
}

describe("the check of upstreams", () => {
  it("fails when every upstream of every environment is down, and not before", () => {
    const check = (...told: string[]) =>
      readinessChecks(observed({ upstreams: upstreams(...told) })).upstreams;
    assert.deepEqual(check("production:up", "staging:up"), { ok: true });
    assert.equal(check("production:up", "staging:down").ok, true, "a dead staging backend");
    assert.equal(check("production:down", "production/v1/a:down", "staging:up").ok, true);
    assert.equal(check("production:down", "staging:down").ok, false);
    assert.equal(check().ok, true);
  });

  it("of one environment fails when any backend of it has none up, whatever the others have", () => {
    const all = ["production:up", "production:down", "production/v1/a:down", "staging:down"];
    const check = (environment: string, told: readonly string[]) =>
      readinessChecks(observed({ upstreams: upstreams(...told) }), environment).upstreams.ok;
    assert.equal(check("production", all), false, "/v1/a has none");
    assert.equal(check("production", [...all, "production/v1/a:up"]), true);
    assert.equal(check("production", ["production:down", "staging:up"]), false);
    assert.equal(check("staging", ["production:down", "staging:up"]), true);
  });

  it("names each that is down by its environment, its path and its origin alone", () => {
    const [first] = upstreams("production/v1/a:down");
    const secret = {
      ...first,
      environment: "x",
      origin: "http://user:secret@10.0.0.9:8000",
      up: false,
    };
    const { why } = readinessChecks(observed({ upstreams: [first, secret] as never })).upstreams;
    assert.equal(why, "down: production /v1/a http://10.0.0.0:8000, x /v1/a http://10.0.0.9:8000");
  });
});

describe("the other checks", () => {
  it("repeat nothing of a record, and a place of the file only", () => {
    const why = "record 3 is damaged: pets_live_canary";
    const { keys, config } = readinessChecks(
      observed({ keys: { ok: false, why }, reloadFailed: "tollgate.yaml:3:4" }),
    );
    assert.deepEqual(keys, { ok: false, why: "no usable key records: the log says why" });
    assert.deepEqual(config, {
      ok: true,
      why: "not reloaded: tollgate.yaml:3:4; the log says why",
    });
  });

  it("send to the check of an unreachable store too, as the log has no line of records then", () => {
    const away = { ok: false, why: "unreachable" };
    const { keys } = readinessChecks(observed({ store: away, keys: { ok: false } }));
    assert.equal(keys.why, "no usable key records: the check of the store or the log says why");
  });

  it("say whether records are in use that cannot be read, or are damaged", () => {
    const why = (keys: object) =>
      readinessChecks(observed({ keys: { ok: false, ...keys } })).keys.why;
    const log = "the log says";
    assert.equal(why({ inUse: false, damaged: 1 }), `no usable key records: ${log} why`);
    const stale = `the key records cannot be read: ${log} why; those read before are in use`;
    assert.equal(why({ inUse: true, damaged: 0 }), stale);
    const others = `${log} where; the others are in use`;
    assert.equal(why({ inUse: true, damaged: 1 }), `1 key record is damaged: ${others}`);
    assert.equal(why({ inUse: true, damaged: 2 }), `2 key records are damaged: ${others}`);
  });

  it("say how lost records come back, and that lines of the log are dropped, which fails nothing", () => {
    const lost = "3 records are gone: run keys import";
    const checks = readinessChecks(
      observed({ keys: { ok: false, why: "of a record", lost }, logTrouble: "ENOSPC" }),
    );
    assert.deepEqual(
      [checks.keys, checks.log],
      [
        { ok: false, why: lost },
        { ok: true, why: "ENOSPC" },
      ],
    );
    assert.equal("log" in readinessChecks(observed({})), false);
    assert.deepEqual(readinessChecks(observed({ keys: { ok: true, lost } })).keys, { ok: true });
  });

  it("fail while it drains or its store is unreachable, and tell the workers only where there are some", () => {
    const store = { ok: false, why: "the store is unreachable" };
    assert.deepEqual(readinessChecks(observed({ store })).store, store);
    const { draining } = readinessChecks(observed({ draining: true }));
    assert.deepEqual(draining, { ok: false, why: "shutting down" });
    assert.equal("workers" in readinessChecks(observed({})), false);
    const workers = { ok: false, why: "none serves" };
    assert.deepEqual(readinessChecks(observed({ workers })).workers, workers);
  });
});
