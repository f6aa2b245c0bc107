import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test, vi } from "vitest";
import { loadConfig } from "../../../src/config/load/load.ts";
import { openBlackHole } from "../../support/black-hole.ts";
import { eventually } from "../../support/poll.ts";
import { openFolder, runVerb, writeConfig } from "../kit.ts";

/** A JSON API that is no gateway; it answers everything so. */
async function openStranger(body: string, status = 200) {
  const server = createServer((_request, response) => {
    response.writeHead(status, { "Content-Type": "application/json" }).end(body);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

const VERBS = [
  ["usage"],
  ["usage", "acme"],
  ["bans", "list"],
  ["bans", "add", "acme", "--for", "1h"],
  ["bans", "lift", "acme"],
  ["bans", "why", "acme"],
  ["accounts", "reset", "acme"],
  ["explain", "acme"],
  ["deprecations"],
  ["status"],
  ["reload"],
];

const NO_LISTENER =
  /\(admin\.listen\).*: what answered is no admin listener of Tollgate\. Is it running\?$/m;

test("an answer of another service is told in words by every verb that asks the gateway", async () => {
  await using folder = await openFolder();
  await using stranger = await openStranger('{"name":"another service"}');
  const file = await writeConfig(folder, { admin: stranger.port });
  for (const verb of VERBS) {
    const said = await runVerb([...verb, "--config", file]);
    assert.deepEqual([verb, said.status, said.out], [verb, 1, ""]);
    assert.match(said.err, NO_LISTENER);
  }
});

test("an answer of any form is told in words", async () => {
  for (const [body, status, told] of [
    ["[]", 200, NO_LISTENER],
    ["null", 200, NO_LISTENER],
    ["<html>", 200, NO_LISTENER],
    ["7", 500, /^The gateway at http:\/\/127\.0\.0\.1:\d+ \(admin\.listen\) answers 500$/m],
  ] as const) {
    await using folder = await openFolder();
    await using stranger = await openStranger(body, status);
    const file = await writeConfig(folder, { admin: stranger.port });
    const said = await runVerb(["usage", "acme", "--config", file]);
    assert.deepEqual([body, said.status, said.out], [body, 1, ""]);
    assert.match(said.err, told);
  }
});

test("a gateway that refuses a reload says why, and no other way to do it is offered", async () => {
  await using folder = await openFolder();
  const message = "The old configuration stays in force: restart the gateway to change it";
  const refusal = JSON.stringify({ code: "reload_refused", message, status: 409 });
  await using gateway = await openStranger(refusal, 409);
  const file = await writeConfig(folder, { admin: gateway.port });
  const { status, err } = await runVerb(["reload", "--config", file]);
  assert.deepEqual([status, err], [1, `${message}\n`]);
});

test("a gateway that has another token says so, and reload says what takes the new one over", async () => {
  await using folder = await openFolder();
  const refusal = '{"code":"token_invalid","message":"The admin token is not right","status":401}';
  await using gateway = await openStranger(refusal, 401);
  const file = await writeConfig(folder, { admin: gateway.port });
  const { status, err } = await runVerb(["reload", "--config", file]);
  assert.equal(status, 1);
  const [first, second] = err.split("\n");
  assert.match(
    first ?? "",
    /^The admin token is not right \(admin\.listen, http:\S+\)\. Set TOLLGATE_ADMIN_TOKEN, or /,
  );
  assert.match(second ?? "", /the gateway still has the old one: SIGHUP to the process, or saving/);
});

test("a gateway that refuses the name by which it was asked is told with its place", async () => {
  await using folder = await openFolder();
  const message = "The Host is not one of this listener";
  const refusal = JSON.stringify({ code: "host_refused", message, status: 403 });
  await using gateway = await openStranger(refusal, 403);
  const file = await writeConfig(folder, { admin: gateway.port });
  const { status, err } = await runVerb(["bans", "list", "--config", file]);
  const place = `(admin.listen, http://127.0.0.1:${gateway.port})`;
  assert.deepEqual([status, err], [1, `${message} ${place}\n`]);
});

test("a gateway that finds mistakes in its configuration has each told at its place", async () => {
  await using folder = await openFolder();
  const message = "The old configuration stays in force: the new one has 2 mistakes";
  const mistakes = [3, 9].map((line) => ({ file: "a.yaml", line, column: 5, message: "Wrong" }));
  const refusal = JSON.stringify({ code: "config_invalid", message, status: 422, mistakes });
  await using gateway = await openStranger(refusal, 422);
  const file = await writeConfig(folder, { admin: gateway.port });
  const { status, err } = await runVerb(["reload", "--config", file]);
  assert.deepEqual([status, err], [1, `${message}\na.yaml:3:5: Wrong\na.yaml:9:5: Wrong\n`]);
});

test("an answer of more than 64 MiB is given up, and told so", async () => {
  await using folder = await openFolder();
  for (const [characters, status] of [
    [64 * 1024 ** 2, 0],
    [64 * 1024 ** 2 + 1, 1],
  ] as const) {
    await using stranger = await openStranger("[]".padStart(characters));
    const file = await writeConfig(folder, { admin: stranger.port });
    const said = await runVerb(["bans", "list", "--json", "--config", file]);
    assert.equal(said.status, status, said.err);
    assert.match(
      `${said.out}${said.err}`,
      status === 0 ? /^\[\]\n$/ : /: the answer is too long\./,
    );
  }
});

test("a gateway that refused an earlier file is no reason to warn of one that is in force", async () => {
  await using folder = await openFolder();
  for (const isInForce of [true, false]) {
    const hashes = new Map<string, string>();
    const why = "not reloaded: x.yaml:1:1";
    const server = createServer((_request, response) => {
      const running = { plans: {}, environments: {}, hash: hashes.get("hash") };
      const checks = { config: { ok: true, why } };
      response.end(JSON.stringify({ status: "ready", checks, ...running }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const file = await writeConfig(folder, { admin: (server.address() as AddressInfo).port });
    const loaded = await loadConfig(file, {});
    hashes.set("hash", loaded.ok && isInForce ? loaded.config.hash : "another");
    const { err } = await runVerb(["keys", "list", "--config", file]);
    server.close();
    server.closeAllConnections();
    const warning = `${file}: warning: ${why}. The plans and environments of the gateway hold\n`;
    assert.equal(err, isInForce ? "" : warning);
  }
});

test("a gateway that does not say whether it took the file over is waited for two seconds", async () => {
  await using folder = await openFolder();
  const waitedMs: number[] = [];
  const server = createServer(({ url }, response) => {
    if (url !== "/readyz") return void response.end("{}");
    const fromMs = performance.now();
    response.once("close", () => waitedMs.push(performance.now() - fromMs));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const file = await writeConfig(folder, { admin: (server.address() as AddressInfo).port });
  const said = await runVerb(["keys", "list", "--json", "--config", file]);
  await eventually(() => assert.equal(waitedMs.length, 1));
  server.close();
  server.closeAllConnections();
  assert.deepEqual([said.status, said.out, said.err], [0, "[]\n", ""]);
  assert.ok((waitedMs[0] ?? 0) > 1_000 && (waitedMs[0] ?? 0) < 10_000, `${waitedMs} ms`);
});

test("a gateway that takes connections and does not answer is waited for once, however many questions a verb has", async () => {
  await using folder = await openFolder();
  await using hole = await openBlackHole();
  const file = await writeConfig(folder, { admin: Number(new URL(hole.origin).port) });
  const startedMs = performance.now();
  const { status, out } = await runVerb(["keys", "list", "--config", file]);
  const tookMs = performance.now() - startedMs;
  assert.deepEqual([status, out], [0, "There are no keys: issue one with `keys create`\n"]);
  assert.ok(tookMs > 4_900 && tookMs < 9_000, `${tookMs} ms`);
});

test("a gateway that hangs is waited for 10 s in all by a verb that needs its answer, with the time on a terminal", async () => {
  await using folder = await openFolder();
  await using hole = await openBlackHole();
  const file = await writeConfig(folder, { admin: Number(new URL(hole.origin).port) });
  const verbs = ["accounts reset acme", "bans why acme", "explain x", "deprecations", "status"];
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  const verbOf = new AsyncLocalStorage<string>();
  const waits = new Map(verbs.map((verb) => [verb, 0]));
  // The waits are added up, and each is given up sooner, so that a busy machine adds nothing.
  const spy = vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
    const verb = verbOf.getStore() ?? "";
    waits.set(verb, (waits.get(verb) ?? 0) + ms);
    return timeout(Math.min(ms, 2_000));
  });
  try {
    const waited = verbs.map(async (verb) => {
      const args = [...verb.split(" "), "--config", file];
      const asked = () => runVerb(args, { isErrTty: true });
      const { status, err } = await verbOf.run(verb, asked);
      assert.equal(status, 1, verb);
      assert.match(err, /Waiting for the gateway: 1 s/, verb);
    });
    await Promise.all(waited);
  } finally {
    spy.mockRestore();
  }
  assert.deepEqual(
    [...waits],
    verbs.map((verb) => [verb, 10_000]),
  );
});
