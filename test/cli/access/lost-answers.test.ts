import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, it, vi } from "vitest";
import { recordLines } from "../../../src/stores/keys/file/export-records.ts";
import { recordsFrom } from "../../support/records.ts";
import { openFolder, runVerb } from "../kit.ts";
import { openAdmin, send } from "./admin-server.ts";

const PRODUCTION = { listen: "127.0.0.1:1", keyTag: "live", upstreams: ["http://127.0.0.1:1"] };
const RUNNING = {
  environments: { production: PRODUCTION },
  plans: { free: { minute: 60 } },
  ...{ hash: "x", store: "redis://127.0.0.1:1" },
};
function linesOf(id: string, account: string): string {
  return [...recordLines(recordsFrom([{ id, account }]))].map((line) => `${line}\n`).join("");
}

/** A gateway that answers each question, in front of which a proxy answers each change so. */
function openProxy(lose: (response: ServerResponse) => void) {
  return openAdmin((response, { asked }) => {
    if (asked === "GET /api/config") return send(response, 200, RUNNING);
    if (asked === "GET /api/keys/export") return void response.end(linesOf("k_1", "ada"));
    if (asked.startsWith("GET")) return send(response, 200, { id: null, place: "there" });
    lose(response);
  });
}

const CUT = "the connection ended before its answer";
/** As another gateway in front of it may say it. */
const LATE = { code: "upstream_timeout", message: "Late" };
const LOST: readonly (readonly [why: string, (response: ServerResponse) => void])[] = [
  [CUT, (response) => response.socket?.destroy()],
  [CUT, (response) => response.writeHead(200).write("{", () => response.destroy())],
  ["its answer (201) cannot be read", (response) => response.writeHead(201).end('{"acc')],
  ["its answer (504) cannot be read", (response) => response.writeHead(504).end("<html>")],
  ["its answer (504) cannot be read", (response) => send(response, 504, { message: "Late" })],
  ["its answer (504) cannot be read", (response) => send(response, 504, { ...LATE, status: 504 })],
  ["its answer (502) cannot be read", (response) => send(response, 502, { ...LATE, status: 502 })],
];

const CREATE = ["keys", "create", "--env", "production", "--plan", "free"];
const NEW_KEY =
  /Look with `keys show (k_\w+)`: if it is there and nobody has the key, `keys rotate \1 --grace 0s` issues another in its place\n$/;
/** Each change, and the command that shows whether it was made. */
const CHANGES: readonly (readonly [string, readonly string[], RegExp])[] = [
  ["keys create", CREATE, NEW_KEY],
  ["accounts suspend", ["accounts", "suspend", "ada"], /Look with `accounts show ada`\n$/],
  ["keys revoke", ["keys", "revoke", "k_1"], /Look with `keys show k_1`\n$/],
  ["accounts reset", ["accounts", "reset", "ada"], /Look with `usage ada`\n$/],
  ["bans add", ["bans", "add", "ada", "--for", "1h"], /Look with `bans why ada`\n$/],
  ["bans lift", ["bans", "lift", "ada"], /Look with `bans why ada`\n$/],
  ["reload", ["reload"], /Look with `status`\n/],
];

describe("a change that was sent and whose answer is lost", () => {
  it.each(LOST)("is told as not known, with the reason and its place: %s", async (why, lose) => {
    await using proxy = await openProxy(lose);
    const { status, out, err } = await runVerb([...CREATE, "--admin", proxy.origin]);
    assert.deepEqual([status, out], [1, ""]);
    const sent = `It is not known whether this was done: it was sent to the gateway at ${proxy.origin} (--admin), and ${why}. Look with`;
    assert.ok(err.startsWith(sent), err);
  });

  it("is told as not known if the gateway is silent", async (t) => {
    const silence = new AbortController();
    vi.spyOn(AbortSignal, "timeout").mockReturnValue(silence.signal);
    t.onTestFinished(() => void vi.restoreAllMocks());
    await using proxy = await openProxy(() => silence.abort());
    const { status, err } = await runVerb([...CREATE, "--admin", proxy.origin]);
    assert.equal(status, 1);
    assert.match(err, /^It is not known whether this was done: .*, and it does not answer\. Look/);
  });

  it.each(CHANGES)(
    "is told with how to look, without words of the store: %s",
    async (_, verb, look) => {
      await using proxy = await openProxy((response) => response.socket?.destroy());
      const { status, out, err } = await runVerb([...verb, "--admin", proxy.origin]);
      assert.deepEqual([status, out], [1, ""]);
      assert.ok(err.startsWith("It is not known whether this was done: "), err);
      assert.match(err, look);
      assert.doesNotMatch(err, /Is it running|store: memory/);
    },
  );

  it("has the ID of each new key, or the list of the account that has too many of them", async () => {
    await using proxy = await openProxy((response) => response.socket?.destroy());
    for (const [count, look] of [
      ["2", /Look with `keys list`: new keys are k_\w+, k_\w+\n$/],
      ["11", /Look with `keys list`\n$/],
    ] as const) {
      const many = [...CREATE, "--account", "eve", "--count", count, "--admin", proxy.origin];
      assert.match((await runVerb(many)).err, look);
    }
  });
});

it("an import of one key whose answer is lost says to replace it only if nobody has the key", async () => {
  await using proxy = await openProxy((response) => response.socket?.destroy());
  await using folder = await openFolder();
  const file = join(folder.path, "one.jsonl");
  await writeFile(file, linesOf("k_2", "eve"));
  const { err } = await runVerb(["keys", "import", file, "--admin", proxy.origin]);
  assert.match(err, NEW_KEY);
});

it("a change that was refused, or that nothing took, is not told as perhaps done", async () => {
  await using refusing = await openProxy((response) => response.writeHead(413).end("<html>"));
  await using away = await openProxy((response) => {
    send(response, 503, { code: "store_away", message: "The store is away" });
  });
  const ban = ["bans", "add", "ada", "--for", "1h", "--admin"];
  const refused = await runVerb([...ban, refusing.origin]);
  const cannot = `Cannot ask the gateway at ${refusing.origin} (--admin): what answered is no admin listener of Tollgate. Is it running?\n`;
  assert.deepEqual([refused.status, refused.err], [1, cannot]);
  const told = await runVerb([...ban, away.origin]);
  assert.deepEqual([told.status, told.err], [1, "The store is away\n"]);
  // It ends between the question of a verb and its change.
  await using stopping = await openAdmin((response) => {
    response.once("finish", () => stopping[Symbol.asyncDispose]());
    send(response, 200, RUNNING);
  });
  const none = await runVerb([...ban, stopping.origin]);
  assert.equal(stopping.questions.length, 1);
  assert.match(none.err, /: nothing listens there\. Is it running\?\n$/);
});
