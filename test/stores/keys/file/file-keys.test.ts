import assert from "node:assert/strict";
import files, {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, it, vi } from "vitest";
import { DamagedFileError } from "../../../../src/stores/files/damaged-file.ts";
import { takeLock } from "../../../../src/stores/files/file-lock.ts";
import { openFileKeyStore } from "../../../../src/stores/keys/file/file-key-store.ts";
import type { KeyStore } from "../../../../src/stores/keys/key-store.ts";
import { startNode } from "../../../support/gateway/processes.ts";
import { eventually } from "../../../support/poll.ts";
import { add, record } from "../record.ts";

let directory: string;
let path: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tollgate-keys-"));
  path = join(directory, "data", "keys.json");
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const clear = () => rm(join(directory, "data"), { recursive: true, force: true });

const opened: KeyStore[] = [];
let told: string[] = [];
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  told = [];
  await clear();
});

async function open(watch = true): Promise<KeyStore> {
  const report = (level: string, event: string, details?: { readonly why?: unknown }) => {
    told.push(`${level}: ${details?.why ?? event}`);
  };
  const store = await openFileKeyStore({ path, report, watch });
  opened.push(store);
  return store;
}

/** A machine under load takes a minute to start as many processes. */
const PATIENT = { timeout: 300_000 };

describe("The file of keys on disk", () => {
  it("is one line per record, for its owner only, without leftovers", async () => {
    const store = await open(false);
    await add(store, record("k_1"), record("k_2"));
    const text = await readFile(path, "utf8");
    const lines = text.split("\n");
    assert.equal(lines.length, 8);
    assert.match(lines[1] ?? "", /^\{"version":2,"id":"k_1","digest":"[0-9a-f]{64}".*\},$/);
    assert.match(lines[4] ?? "", /^\{"version":2,"id":"k_1","environment":"production".*\},$/);
    assert.deepEqual(JSON.parse(text).version, 2);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    await assert.rejects(stat(`${path}.tmp`));
  });

  it("may be laid out in any way by hand", async () => {
    await add(await open(false), record("k_1"));
    await writeFile(path, JSON.stringify(JSON.parse(await readFile(path, "utf8")), null, 4));
    assert.equal((await open()).records().keys[0]?.id, "k_1");
  });

  it("is not changed by a writer that finds it damaged", async () => {
    const store = await open(false);
    await add(store, record("k_1"));
    await writeFile(path, "{");
    await assert.rejects(add(store, record("k_2")), DamagedFileError);
    assert.equal(await readFile(path, "utf8"), "{");
  });

  it("leaves the last good keys in use while it is damaged, told once, and heals", async () => {
    const store = await open();
    const first = record("k_1");
    await add(store, first);
    const good = await readFile(path, "utf8");
    const damages: (() => Promise<void>)[] = [
      () => writeFile(path, good.slice(0, 100)),
      () => truncate(path, 0),
      () => rm(path),
    ];
    for (const damage of damages) {
      await damage();
      await eventually(() => assert.equal(store.health().ok, false));
      assert.deepEqual([store.find(first.digest), store.records().keys], [first, [first]]);
      await writeFile(path, good);
      await eventually(() => assert.equal(store.health().ok, true));
    }
    assert.deepEqual(
      told.map((line) => line.slice(0, 5)),
      ["error", "info:", "error", "info:", "error", "info:"],
    );
    assert.match(told[0] ?? "", /keys\.json:2:\d+: .*The keys read before stay in use/);
    assert.match(told[4] ?? "", /Cannot find the keys file/);
  });

  it("that was refused is not read again until it changes", async () => {
    const store = await open();
    await add(store, record("k_1"));
    await writeFile(path, "{");
    await eventually(() => assert.equal(store.health().ok, false));
    const [reads, looks] = [vi.spyOn(files, "open"), vi.spyOn(files, "stat")];
    syncBuiltinESMExports();
    const times = (spy: { readonly mock: { readonly calls: readonly unknown[][] } }) =>
      spy.mock.calls.filter(([name]) => name === path).length;
    try {
      await eventually(() => assert.ok(times(looks) >= 3), { withinMs: 60_000 });
      assert.deepEqual([times(reads), told.length], [0, 1], "told once, however often it is seen");
      await writeFile(path, "{}");
      await eventually(() => assert.equal(times(reads), 1));
    } finally {
      vi.restoreAllMocks();
      syncBuiltinESMExports();
    }
  });

  it("is not looked at again after a close, which may come during a look", async () => {
    const store = await open();
    const look = files.stat;
    let looks = 0;
    let closed: Promise<void> | undefined;
    const counted = (name: string, options: { readonly bigint: true }) => {
      if (name === path) {
        looks += 1;
        closed ??= store.close();
      }
      return look(name, options);
    };
    vi.spyOn(files, "stat").mockImplementation(counted as never);
    syncBuiltinESMExports();
    try {
      await eventually(() => assert.notEqual(closed, undefined));
      await closed;
      await pause(700);
      assert.equal(looks, 1);
    } finally {
      vi.restoreAllMocks();
      syncBuiltinESMExports();
    }
  });

  it("that was removed under a gateway is not begun anew with a single key", async () => {
    const store = await open(false);
    await add(store, record("k_1"));
    await rm(path);
    await assert.rejects(add(store, record("k_2")), /Cannot find the keys file .* put it back/);
    await assert.rejects(stat(path));
  });

  it("is written by one at a time: another waits", async () => {
    const store = await open(false);
    await add(store, record("k_1"));
    const lock = await takeLock(path, 0);
    assert.ok(lock);
    assert.equal(await takeLock(path, 30), undefined);
    let done = false;
    const waiting = add(store, record("k_2")).then(() => {
      done = true;
    });
    await eventually(() => assert.equal(store.records().keys.length, 1));
    assert.equal(done, false);
    lock.release();
    await waiting;
    assert.equal(store.records().keys.length, 2);
  });

  it("is given up for this change when another one keeps it too long", async () => {
    const store = await openFileKeyStore({ path, report: () => {}, watch: false, lockWaitMs: 20 });
    opened.push(store);
    const lock = await takeLock(path, 0);
    assert.ok(lock);
    await assert.rejects(add(store, record("k_1")), /has kept them locked for 20 ms. Try again/);
    lock.release();
    await add(store, record("k_1"));
  });

  it("stays as it was, and the change fails with why, when it cannot be written", async () => {
    const store = await open(false);
    await add(store, record("k_1"));
    const before = await readFile(path, "utf8");
    // A directory in the place of the temporary file: refused even for root.
    await mkdir(`${path}.tmp`);
    await assert.rejects(
      add(store, record("k_2")),
      /Cannot write the keys file .*directory.*: nothing was changed$/i,
    );
    assert.deepEqual([await readFile(path, "utf8"), store.records().keys.length], [before, 1]);
    await rm(`${path}.tmp`, { recursive: true });
    await add(store, record("k_2"));
  });

  it("in a directory that cannot be made is named, with why", async () => {
    await writeFile(join(directory, "data"), "a file in the way");
    await assert.rejects(open(), /Cannot read the keys file .* a part of its path is not a dir/);
  });

  it("is read in any size, by its lines or whole, with the mistakes of both", async () => {
    const store = await open(false);
    const many = Array.from({ length: 1_200 }, (_, i) => record(`k_${i}`));
    await add(store, ...many);
    assert.deepEqual((await open(false)).records().keys, many);
    const text = await readFile(path, "utf8");
    await writeFile(path, text.replace('"k_1100"', '"k_1099"'));
    await assert.rejects(open(), /keys\.json:1102:19: Cannot use keys\[1100\]\.id: another key/);
    await writeFile(path, text.replaceAll('"scopes":[]', '"scopes":7'));
    const error: unknown = await open().catch((cause: unknown) => cause);
    assert.ok(error instanceof DamagedFileError);
    assert.equal(error.message.split("\n").length, 20);
  });

  it("can be changed beside a damaged record, which is written as it was found", async () => {
    const store = await open();
    const [one, two] = [record("k_1"), record("k_2")];
    await add(store, one, two);
    const text = await readFile(path, "utf8");
    const damaged = text.replace('"id":"k_1"', '"id":"k_1","hand":"made"');
    await writeFile(path, damaged);
    await eventually(() => assert.equal(store.health().ok, false));
    assert.equal(store.health().why, "1 records in the keys file are damaged: the log names them");
    assert.match(told.join(), /keys\.json:2:\d+: Cannot use keys\[0\]\.hand: it is unknown/);
    assert.deepEqual(store.find(one.digest), one);

    const writer = await open(false);
    assert.equal(writer.damage().length, 1);
    const revoked = { ...two, revokedMs: 5 };
    await writer.change((before) => {
      assert.deepEqual(before.keys, [two]);
      return { records: { ...before, keys: [revoked] }, result: 0 };
    });
    await eventually(() => assert.deepEqual(store.find(two.digest), revoked));
    assert.deepEqual(store.find(one.digest), one);
    const after = await readFile(path, "utf8");
    assert.match(
      after,
      /"id":"k_1","digest":"[0-9a-f]{64}".*"hand":"made"|"hand":"made".*"digest"/,
    );
    // The store that has it in use as it was changes others, and leaves it to whoever repairs it.
    await add(store, record("k_3"));
    assert.deepEqual(store.find(one.digest), one);
    const last = await readFile(path, "utf8");
    assert.equal(last.match(/"id":"k_1",[^\n]*"digest"/g)?.length, 1);
    assert.equal(last.match(/"hand":"made"/g)?.length, 1);
    await writeFile(path, last.replace(',"hand":"made"', ""));
    await eventually(() => assert.deepEqual(store.health(), { ok: true }));
    assert.equal(store.records().keys.length, 3);
  });

  it("of the version before accounts were records has the newest working key speak for each", async () => {
    await mkdir(join(directory, "data"), { recursive: true });
    const line = (id: string, letter: string, more: object) =>
      JSON.stringify({
        ...{ id, digest: letter.repeat(64), name: "", plan: "free", environment: "production" },
        ...{
          account: "acme",
          scopes: [],
          limits: {},
          created: "2026-01-01T00:00:00.000Z",
          ...more,
        },
      });
    const old = [
      line("k_1", "a", { plan: "old", limits: { day: 9 } }),
      line("k_2", "b", { plan: "pro", created: "2026-01-02T00:00:00.000Z" }),
      line("k_3", "c", {
        plan: "gone",
        created: "2026-01-03T00:00:00.000Z",
        revoked: "2026-01-04T00:00:00.000Z",
      }),
    ];
    await writeFile(path, `{"version":1,"keys":[\n${old.join(",\n")}\n]}\n`);
    const store = await open();
    assert.deepEqual(store.account("acme"), {
      id: "acme",
      environment: "production",
      plan: "pro",
      limits: [],
      meta: {},
      createdMs: Date.UTC(2026, 0, 1),
    });
    await add(store, record("k_4"));
    assert.equal(JSON.parse(await readFile(path, "utf8")).version, 2);
    assert.equal((await open(false)).account("acme")?.plan, "pro");
  });

  it("loses nothing of 24 changes by the service's user behind one by root", PATIENT, async () => {
    if (process.getuid?.() !== 0) return;
    const data = join(directory, "data");
    await mkdir(data, { recursive: true });
    await chmod(directory, 0o755);
    await chown(data, 12_345, 12_345);
    await add(await open(false), record("k_root"));
    const owners = await Promise.all([path, `${path}.lock`].map((file) => stat(file)));
    assert.deepEqual(
      owners.map(({ uid, mode }) => [uid, mode & 0o777]),
      [
        [12_345, 0o600],
        [12_345, 0o600],
      ],
    );
    const writer = new URL("../writer.ts", import.meta.url).pathname;
    const command = (i: number, changes = 1) => [writer, `w${i}`, `${changes}`, "file", path];
    // That user has no compiled code of earlier runs: one compiles it for the others.
    const compiled = join(data, "compiled");
    const user = { uid: 12_345, env: { NODE_COMPILE_CACHE: compiled } };
    assert.equal((await startNode(command(0, 0), user).exited).code, 0);
    assert.ok((await readdir(compiled)).length > 0);
    const running = Array.from({ length: 24 }, (_, i) => startNode(command(i), user));
    for (const { exited } of running) {
      const { code, stderr } = await exited;
      assert.equal(code, 0, stderr);
    }
    assert.equal((await open(false)).records().keys.length, 25);
  });

  it("with a lock that this user may only read is not changed", async () => {
    if (process.getuid?.() !== 0) return;
    const data = join(directory, "data");
    await mkdir(data, { recursive: true });
    await chmod(directory, 0o755);
    await chown(data, 12_345, 12_345);
    await writeFile(`${path}.lock`, "", { mode: 0o644 });
    const writer = new URL("../writer.ts", import.meta.url).pathname;
    const { code, stderr } = await startNode([writer, "w", "1", "file", path], { uid: 12_345 })
      .exited;
    assert.equal(code, 1);
    assert.match(stderr, /Cannot lock .*keys\.json\.lock: this user may not write it/);
    await assert.rejects(stat(path));
  });

  it("loses nothing of changes that come through a link and by its own name", async () => {
    const data = join(directory, "data");
    await mkdir(join(data, "real"), { recursive: true });
    await symlink(join(data, "real", "keys.json"), path);
    const writer = new URL("../writer.ts", import.meta.url).pathname;
    const running = Array.from({ length: 12 }, (_, i) => {
      const where = i % 2 === 0 ? path : join(data, "real", "keys.json");
      return startNode([writer, `w${i}`, "2", "file", where]);
    });
    for (const { exited } of running) assert.equal((await exited).code, 0);
    assert.equal((await open(false)).records().keys.length, 24);
    assert.ok((await lstat(path)).isSymbolicLink());
  });

  it("is locked by a process only while that lives, however it ends", async () => {
    await add(await open(false), record("k_1"));
    const lockFile = new URL("../../../../src/stores/files/file-lock.ts", import.meta.url).pathname;
    const script = `import { takeLock } from ${JSON.stringify(lockFile)};
      await takeLock(${JSON.stringify(path)}, 0); console.log("locked"); setInterval(() => {}, 1e6);`;
    await using holder = startNode(["--input-type=module", "-e", script]);
    await holder.says("locked");
    assert.equal(await takeLock(path, 30), undefined);
    await holder.kill();
    const lock = await takeLock(path, 0);
    assert.ok(lock);
    lock.release();
  });

  it("follows a link and keeps the link", async () => {
    await mkdir(join(directory, "data"), { recursive: true });
    const real = join(directory, "data", "real.json");
    await writeFile(real, `{"version":1,"keys":[]}`);
    await symlink(real, path);
    await add(await open(false), record("k_1"));
    assert.ok((await lstat(path)).isSymbolicLink());
    assert.match(await readFile(real, "utf8"), /k_1/);
  });

  it("that cannot be read or written is named, with why", async () => {
    const store = await open(false);
    await add(store, record("k_1"));
    await rm(path);
    await mkdir(path);
    await assert.rejects(open(), /Cannot read the keys file .*keys\.json: it is a directory/);
    await rm(path, { recursive: true });
    if (process.getuid?.() === 0) return;
    await writeFile(path, `{"version":1,"keys":[]}`);
    await chmod(path, 0);
    await assert.rejects(open(), /permission denied/);
  });
});
