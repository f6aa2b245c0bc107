import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, it } from "vitest";
import { digestKey } from "../../../src/core/keys/key.ts";
import { recordLines } from "../../../src/stores/keys/file/export-records.ts";
import { recordsFrom } from "../../support/records.ts";
import { openAdmin, send } from "../access/admin-server.ts";
import { jsonOf, openFolder, writeConfig } from "../kit.ts";

const MAIN = join(import.meta.dirname, "../../../src/main.ts");
const RUNNING = {
  environments: {
    production: { listen: "127.0.0.1:1", keyTag: "live", upstreams: ["http://127.0.0.1:1"] },
  },
  plans: { free: { minute: 1 }, pro: { minute: 2 } },
  ...{ store: "memory", hash: "x" },
};

/** The answer to a change of what an account has in the store. */
const CHANGED = { account: "ada", environment: "production", until: 0, windows: [] };

type Ended = { readonly out: string; readonly err: string; readonly by: NodeJS.Signals | null };

function start(args: readonly string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = async (): Promise<Ended> => {
    const [out, err, [, by]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "exit"),
    ]);
    return { out, err, by };
  };
  return { child, ended: ended() };
}

/**
 * How a verb ends that gets these signals while a gateway takes in its change, which then has been
 * made. `changes` is how many were made.
 */
async function signalled(
  args: readonly string[],
  signals: readonly NodeJS.Signals[],
  given: Parameters<typeof recordsFrom>[0] = [{ id: "k_1", account: "ada" }],
): Promise<Ended & { readonly changes: number }> {
  const lines = [...recordLines(recordsFrom(given))].map((line) => `${line}\n`).join("");
  let changes = 0;
  await using admin = await openAdmin((response, { asked }) => {
    if (asked === "GET /api/config") return send(response, 200, RUNNING);
    if (asked === "GET /api/keys/export") return void response.end(lines);
    if (asked === "GET /api/records") return send(response, 200, { id: null, place: "there" });
    if (asked === "POST /api/keys/refresh") return send(response, 200, { read: true });
    changes += 1;
    for (const signal of signals) verb.child.kill(signal);
    // After several signals the gateway has not answered yet.
    if (signals.length === 1) send(response, 200, { changed: 1, ...CHANGED });
  });
  const verb = start([...args, "--admin", admin.origin]);
  return { ...(await verb.ended), changes };
}

describe("a signal at the write of a command", () => {
  it("that issues a key ends it when the key is printed", async () => {
    const create = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
    const created = await signalled(create, ["SIGHUP"]);
    assert.match(jsonOf<{ key: string }>(created).key, /^pets_live_/);
    assert.deepEqual([created.err, created.by], ["", "SIGHUP"]);
    const { out, err, by } = await signalled(["keys", "rotate", "k_1"], ["SIGTERM"]);
    assert.match(out, /\n {2}pets_live_\w+\n.*The old key k_1 works until/s);
    assert.deepEqual([err, by], ["", "SIGTERM"]);
  });

  it("that revokes keys, or changes them or their account, ends it when that is said", async () => {
    for (const [args, told] of [
      [["keys", "revoke", "k_1"], "Key k_1 is revoked\n"],
      [["accounts", "set", "ada", "--plan", "pro"], "Account ada is on plan pro\n"],
    ] as const) {
      const { out, err, by } = await signalled(args, ["SIGINT"]);
      assert.deepEqual([out, err, by], [told, "", "SIGINT"]);
    }
  });

  it("that bans an account, lifts its ban or resets its windows ends it no earlier than that is said", async () => {
    for (const [args, told] of [
      [["accounts", "reset", "ada"], "The windows of ada in production are at 0: no window runs\n"],
      [
        ["bans", "add", "ada", "--for", "1h"],
        "ada in production is banned until 1970-01-01 00:00:00Z\n",
      ],
      [["bans", "lift", "ada"], "The ban of ada in production is lifted\n"],
    ] as const) {
      const { out, err } = await signalled(args, ["SIGINT"]);
      assert.deepEqual([out, err], [told, ""]);
    }
  });

  it("to the key file is heeded when the key is printed that the file has", async () => {
    await using folder = await openFolder();
    const config = await writeConfig(folder);
    const data = join(folder.path, "data");
    await mkdir(data);
    const args = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
    const verb = start([...args, "--config", config]);
    const watcher = watch(data, (_, name) => {
      if (name === "keys.json") verb.child.kill("SIGINT");
    });
    const { out } = await verb.ended.finally(() => watcher.close());
    const { key } = jsonOf<{ key: string }>({ out });
    assert.ok((await readFile(join(data, "keys.json"), "utf8")).includes(digestKey(key)));
  });

  it("ends the wait for a gateway that does not say that it has read what is printed", async () => {
    await using folder = await openFolder();
    await using admin = await openAdmin((response, { asked }) => {
      if (!asked.startsWith("POST")) return send(response, 404, {});
      verb.child.kill("SIGINT");
    });
    const config = await writeConfig(folder, { admin: Number(new URL(admin.origin).port) });
    const create = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
    const begunMs = performance.now();
    const verb = start([...create, "--config", config]);
    const { out, by } = await verb.ended;
    assert.match(jsonOf<{ key: string }>({ out }).key, /^pets_live_/);
    assert.equal(by, "SIGINT");
    assert.ok(performance.now() - begunMs < 8_000, "it waited for the gateway");
  });

  it("at the wait for a gateway ends no verb that has yet to say that its key could not be printed", async () => {
    await using folder = await openFolder();
    await using admin = await openAdmin((response, { asked }) => {
      if (!asked.startsWith("POST")) return send(response, 404, {});
      child.kill("SIGINT");
      // Nothing tells when the signal has arrived there.
      setTimeout(() => send(response, 200, { read: true }), 500);
    });
    const config = await writeConfig(folder, { admin: Number(new URL(admin.origin).port) });
    const create = ["keys", "create", "--env", "production", "--plan", "free"];
    const child = spawn(process.execPath, [MAIN, ...create, "--config", config]);
    child.stdout.destroy();
    const [err, [, by]] = await Promise.all([text(child.stderr), once(child, "exit")]);
    assert.match(err, /^Cannot write to stdout: [^\n]+\n[^\n]*k_/);
    assert.equal(by, "SIGINT");
  });

  it("ends it at once if it is the second one", async () => {
    const { out, err, by } = await signalled(["keys", "revoke", "k_1"], ["SIGINT", "SIGTERM"]);
    assert.deepEqual([out, err], ["", ""]);
    assert.notEqual(by, null);
  });

  it("to all accounts of a plan ends it after the batch, with how many are changed", async () => {
    const given = Array.from({ length: 4_001 }, (_, i) => ({ id: `k_${i}`, account: `a_${i}` }));
    const args = ["accounts", "set", "--on", "free", "--plan", "pro"];
    const { out, err, by, changes } = await signalled(args, ["SIGINT"], given);
    const told = `Interrupted: ${2_000 * changes} of 4001 accounts are changed, the same command changes the rest\n`;
    assert.ok(changes < 3 && err.endsWith(`accounts\n${told}`), err);
    assert.deepEqual([out, by], ["", "SIGINT"]);
  });
});
