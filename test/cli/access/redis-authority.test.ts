import assert from "node:assert/strict";
import { it } from "vitest";
import { startTollgate } from "../../support/gateway/processes.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { redisTls } from "../../support/redis/redis-tls.ts";
import { openAuthority } from "../../support/wire/certificates.ts";
import { openFolder, writeConfig } from "../kit.ts";

it("a command reaches a Redis whose authority NODE_EXTRA_CA_CERTS names, and says why it reaches no other", async (t) => {
  using authority = openAuthority();
  await using folder = await openFolder();
  const redis = await startRedis({ tls: redisTls(authority) });
  t.onTestFinished(() => redis.close());
  const file = await writeConfig(folder, { store: redis.url, keys: "redis" });
  const list = async (env: Readonly<Record<string, string>>) => {
    await using command = startTollgate(["keys", "list", "--config", file], { env });
    const { code } = await command.exited;
    return { code, err: command.stderr() };
  };
  const trusting = await list({ NODE_EXTRA_CA_CERTS: authority.caFile });
  assert.equal(trusting.code, 0, trusting.err);
  const stranger = await list({});
  assert.equal(stranger.code, 1);
  assert.match(stranger.err, /Redis cannot be reached: (?:\w+_CERT\w*|UNABLE_TO_VERIFY\w+)/);
});
