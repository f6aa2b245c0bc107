import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { freePorts, jsonOf, openFolder, runVerb, type Settings, writeConfig } from "../kit.ts";

/** Creates and revokes keys while a gateway runs, and asks with each the moment the command ends. */
async function answersAtOnce(settings: Settings): Promise<readonly number[]> {
  await using folder = await openFolder();
  await using backend = await startTestUpstream();
  const [production = 0, admin = 0] = await freePorts(2);
  const upstream = Number(new URL(backend.origin).port);
  const ports = { production, admin, productionUpstream: upstream };
  const file = await writeConfig(folder, { ...settings, ...ports });
  await using gateway = startTollgate(["start", "--config", file]);
  await gateway.line(({ msg }) => msg === "serving");
  const keys = (...args: string[]) => runVerb(["keys", ...args, "--json", "--config", file]);
  const ask = async (key: string) => {
    const headers = { Authorization: `Bearer ${key}`, Connection: "close" };
    return (await fetch(`http://127.0.0.1:${production}/v1/pets`, { headers })).status;
  };
  const statuses: number[] = [];
  for (let i = 0; i < 5; i++) {
    const made = jsonOf<{ id: string; key: string }>(
      await keys("create", "--env", "production", "--plan", "free"),
    );
    statuses.push(await ask(made.key), await ask(made.key));
    await keys("revoke", made.id);
    statuses.push(await ask(made.key), await ask(made.key));
  }
  return statuses;
}

const EXPECTED = Array.from({ length: 5 }, () => [200, 200, 401, 401]).flat();

describe("A key that a command made works, and one that it revoked does not, when the command ends", () => {
  it("with the keys in a file", async () => {
    assert.deepEqual(await answersAtOnce({}), EXPECTED);
  });

  it("with the keys in Redis", async () => {
    const redis = await startRedis();
    try {
      const settings = { store: redis.url, keys: "redis" };
      assert.deepEqual(await answersAtOnce(settings), EXPECTED);
    } finally {
      await redis.close();
    }
  });

  it("at every one of several processes", async () => {
    const redis = await startRedis();
    try {
      const settings = { store: redis.url, more: "workers: 2\n" };
      assert.deepEqual(await answersAtOnce(settings), EXPECTED);
    } finally {
      await redis.close();
    }
  });
});
