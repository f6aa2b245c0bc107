import assert from "node:assert/strict";
import { it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";

it("/readyz does not ask for a restart where a plan in use is dropped, and names no account", async () => {
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({ upstreams: [backend.origin] });
  const config = async () => {
    const response = await fetch(`${served.adminUrl}/readyz`);
    const { status, checks } = (await response.json()) as Record<string, Record<string, unknown>>;
    return { status, config: checks?.config };
  };

  await served.rewrite({ plans: { other: { minute: 5 } } });
  const why = "not reloaded: accounts with working keys have a plan that it takes away";
  const refused = { status: "ready", config: { ok: true, why: `${why}; the log says why` } };
  await eventually(async () => assert.deepEqual(await config(), refused));

  await served.rewrite({});
  const taken = { status: "ready", config: { ok: true } };
  await eventually(async () => assert.deepEqual(await config(), taken));
});
