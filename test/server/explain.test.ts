import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { type Explanation, explainRefusal } from "../../src/core/quota/explain.ts";
import { freePorts, jsonOf, runVerb } from "../cli/kit.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { ACCOUNT, KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { awayFromMinuteEdge, sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";

const BANS = { strikes: 4, grace: "5ms", within: "1m", duration: "1s", factor: 2, max: "3s" };

type Told = { readonly bans: readonly { readonly strikes: readonly { readonly at: number }[] }[] };

/** The first ban is remembered with the four refusals that earned it. */
async function bansAgree({ adminUrl }: SpawnedGateway): Promise<void> {
  const { bans } = (await (await fetch(`${adminUrl}/api/bans/${ACCOUNT}`)).json()) as Told;
  assert.ok(bans.length > 0);
  assert.equal(bans[0]?.strikes.length, BANS.strikes, JSON.stringify(bans[0]));
}

/** The commands say the same from the log as the gateway does from its memory. */
async function logAgrees(served: SpawnedGateway, id: string): Promise<void> {
  const log = join(served.directory, "gateway.log");
  await writeFile(log, served.running.stdout());
  const fromLog = await runVerb(["explain", id, "--log", log, "--json"]);
  assert.equal(fromLog.status, 0);
  assert.equal(jsonOf<Explanation>(fromLog).id, id);
  const { bans } = (await (await fetch(`${served.adminUrl}/api/bans/${ACCOUNT}`)).json()) as Told;
  const named = ["--log", log, "--json", "--config", served.file];
  const why = await runVerb(["bans", "why", ACCOUNT, ...named]);
  assert.equal(why.status, 0);
  assert.deepEqual(jsonOf<Told>(why).bans, bans);
}

describe("explain", () => {
  it("says of 1,000 refusals what was answered, from the gateway and from the log", async () => {
    await using backend = await startTestUpstream();
    const plans = { vectors: { second: 30, minute: 40 }, free: { minute: 60 } };
    const config = { plans, bans: BANS };
    await using served = await spawnGateway({ upstreams: [backend.origin], config });
    await awayFromMinuteEdge(20_000);
    const refused = new Map<string, { code: string; window: string; reset: number }>();
    while (refused.size < 1_000) {
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => sendRequest(served.port, { key: KEY })),
      );
      for (const answer of answers) {
        if (answer.status !== 429) continue;
        refused.set(onlyValue(answer, "X-Request-Id"), {
          code: JSON.parse(answer.body.toString()).code,
          window: onlyValue(answer, "X-RateLimit-Window"),
          reset: Number(onlyValue(answer, "X-RateLimit-Reset")),
        });
      }
    }
    await eventually(() => {
      const lines = served.lines.filter(({ status }) => status === 429);
      assert.ok(lines.length >= refused.size);
    });
    const codes = new Set<string>();
    for (const [id, { code, window, reset }] of refused) {
      const entry = served.lines.find((one) => one.id === id) ?? assert.fail(id);
      const explanation = explainRefusal(
        entry,
        code === "key_banned" ? { imposed: false } : undefined,
      );
      codes.add(code);
      assert.equal(explanation.code, code);
      assert.equal(explanation.passesAt, reset, JSON.stringify(entry));
      if (window === "ban") assert.equal(explanation.ban?.until, reset);
      else
        assert.deepEqual([explanation.window?.window, explanation.window?.reset], [window, reset]);
      const remembered = await fetch(`${served.adminUrl}/api/explain/${id}`);
      assert.equal(remembered.status, 200);
      assert.deepEqual(await remembered.json(), JSON.parse(JSON.stringify(explanation)));
    }
    assert.deepEqual([...codes].sort(), ["key_banned", "rate_limited"]);

    await bansAgree(served);
    await logAgrees(served, [...refused.keys()][0] ?? "");
  }, 300_000);

  it("says of a brownout when it is over, as Retry-After does, from the gateway and from the log", async () => {
    const nowMs = Date.UTC(2026, 5, 1, 12, 0, 0, 500);
    const end = Date.UTC(2026, 5, 1, 13);
    const api = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /old: { get: { operationId: old, deprecated: true, x-brownouts: ["2026-06-01T11:00Z/2h"], responses: {} } }
`;
    const [admin = 0] = await freePorts(1);
    await using house = await startTestGateway({
      ...{ now: () => nowMs, files: { "old.yaml": api }, api: "./old.yaml" },
      config: { admin: { listen: `127.0.0.1:${admin}` } },
    });
    const { key } = await house.issue();
    const answer = await house.ask(key, "/v1/old");
    await answer.text();
    assert.deepEqual([answer.status, answer.headers.get("Retry-After")], [410, "3600"]);
    await eventually(() => assert.equal(house.lines.length, 1));
    const [line] = house.lines;
    const log = join(house.directory, "gateway.log");
    await writeFile(log, `${JSON.stringify(line)}\n`);
    for (const more of [[], ["--log", log]]) {
      const pasted = ` ${line?.id}\n`;
      const named = ["explain", pasted, "--config", house.file, ...more];
      const { code, passesAt } = jsonOf<Explanation>(await runVerb([...named, "--json"]));
      assert.deepEqual([code, passesAt], ["brownout", end / 1_000]);
      assert.match((await runVerb(named)).out, /^It would pass from 2026-06-01 13:00:00Z on/m);
    }
  });

  it("finds nothing with 1, naming where it looked", async () => {
    await using backend = await startTestUpstream();
    await using served = await spawnGateway({ upstreams: [backend.origin] });
    const id = "0b8f4a52-5f0f-4d8c-9a53-c4c9f3a1b0de";
    const url = served.adminUrl;
    const file = join(served.directory, "other.yaml");
    await writeFile(file, (await import("../cli/kit.ts")).configText());
    const admins = ["--admin", url, "--admin", url];
    for (const strange of [id, "../keys", "two words", ""]) {
      const unknown = await runVerb(["explain", strange, ...admins, "--config", file]);
      assert.equal(unknown.status, 1);
      assert.match(
        unknown.err,
        new RegExp(`admin is off.*\\n${url}: No refusal with this request id.*\\n$`),
      );
    }
    const log = join(served.directory, "gateway.log");
    await writeFile(log, served.running.stdout());
    const inLog = await runVerb(["explain", id, "--log", log]);
    assert.deepEqual([inLog.status, inLog.out], [1, ""]);
    assert.match(inLog.err, /^No line of .*gateway\.log is of that request$/m);
    assert.equal((await runVerb(["explain", id, "extra"])).status, 64);
  });
});
