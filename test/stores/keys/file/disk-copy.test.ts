import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { KeyRecord } from "../../../../src/core/keys/records.ts";
import { takeLock } from "../../../../src/stores/files/file-lock.ts";
import { openDiskCopy } from "../../../../src/stores/keys/file/disk-copy.ts";
import { createMemoryQuotaStore } from "../../../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { Reporter } from "../../../../src/telemetry/log/log.ts";
import { eventually } from "../../../support/poll.ts";
import { record, withAccounts } from "../record.ts";

let directory: string;
let file: string;
let count = 0;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tollgate-copy-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

function newFile(): string {
  count += 1;
  file = join(directory, `${count}`, "state.json");
  return file;
}

describe("The copy of the keys on disk", () => {
  it("is the newest of what was to be written when it closes", async () => {
    const copy = await openDiskCopy(newFile(), () => {});
    assert.equal(copy.found, undefined);
    const records = Array.from({ length: 30 }, (_, i) => record(`k_${i}`));
    for (let i = 1; i <= records.length; i++) copy.write(withAccounts(...records.slice(0, i)));
    await copy.close();
    assert.deepEqual((await openDiskCopy(file, () => {})).found?.records, withAccounts(...records));
  });

  it("is written again soon where records are few, so that a revocation is not in memory alone", async () => {
    const copy = await openDiskCopy(newFile(), () => {}, { pauseMs: 3_600_000 });
    const revokedThere = async () => (await openDiskCopy(file, () => {})).found?.records.keys[0];
    copy.write(withAccounts(record("k_1")));
    await eventually(async () => assert.equal((await revokedThere())?.id, "k_1"));
    copy.write(withAccounts(record("k_1", { revokedMs: 1 })));
    await eventually(async () => assert.equal((await revokedThere())?.revokedMs, 1));
    await copy.close();
  });

  it("of many records is written once for many changes in a while, and the newest at the end of it", async () => {
    const copy = await openDiskCopy(newFile(), () => {}, { pauseMs: 3_600_000 });
    const { keys, accounts } = withAccounts(
      ...Array.from({ length: 15_000 }, (_, i) => record(`k_${i}`)),
    );
    let changes = 0;
    const writtenMs = new Set<number>();
    await eventually(async () => {
      changes += 1;
      copy.write({ keys: keys.slice(0, changes), accounts });
      writtenMs.add((await stat(file)).mtimeMs);
      assert.equal(writtenMs.size, 2);
    });
    const [first = 0, second = 0] = writtenMs;
    assert.ok(second - first > 400, `${second - first} ms`);
    await eventually(async () => {
      const there = (await openDiskCopy(file, () => {})).found?.records.keys.length;
      assert.equal(there, changes);
    });
    await copy.close();
  });

  it("waits for another gateway of the machine that writes it", async () => {
    const lock = await takeLock(newFile(), 0);
    assert.ok(lock);
    const copy = await openDiskCopy(file, () => {});
    copy.write(withAccounts(record("k_1")));
    setTimeout(() => lock.release(), 50);
    await copy.close();
    assert.match(await readFile(file, "utf8"), /"k_1"/);
  });

  it("that cannot be read stops the start, with why", async () => {
    await mkdir(newFile(), { recursive: true });
    await assert.rejects(
      openDiskCopy(file, () => {}),
      /Cannot read the state file .*directory/,
    );
  });

  it("and the counters of the memory store are not taken for one another, and each is kept when the other is written", async () => {
    const told: string[] = [];
    const kept: string[] = [];
    const report: Reporter = (_, event, details) => {
      const { file: name, why } = details as { file: string; why: string };
      told.push(`${event} ${why}`);
      kept.push(name);
    };
    const accountRef = { environment: "production", account: "a" };
    const quotaRequest = { limits: [{ window: "day", limit: 9 }], bans: undefined } as const;
    const memory = await createMemoryQuotaStore({ stateFile: newFile(), now: Date.now, report });
    void memory.charge(accountRef, { ...quotaRequest, requests: 1 });
    await memory.close();
    const copy = await openDiskCopy(file, report);
    assert.equal(copy.found, undefined);
    const state = await readFile(file, "utf8");
    copy.write(withAccounts(record("k_1")), "v1");
    copy.write(withAccounts(record("k_2")), "v2");
    await copy.close();
    const keys = await readFile(file, "utf8");
    const back = await createMemoryQuotaStore({ stateFile: file, now: Date.now, report });
    assert.equal((await back.peek(accountRef, quotaRequest)).windows[0]?.used, 0);
    await back.close();
    assert.equal(told.length, 2);
    assert.match(told[0] ?? "", /^state_elsewhere .* had counts and bans of .* with store: memory/);
    assert.match(
      told[1] ?? "",
      /^state_elsewhere .* the copy of the key records of .* keys: redis/,
    );
    assert.deepEqual(await Promise.all(kept.map((name) => readFile(name, "utf8"))), [state, keys]);
    await writeFile(file, state);
    const again = await createMemoryQuotaStore({ stateFile: file, now: Date.now, report });
    assert.equal((await again.peek(accountRef, quotaRequest)).windows[0]?.used, 1);
    await again.close();
    assert.equal(told.length, 2);
  });

  it("that could not be written is written without a further change, and at the end", async () => {
    await mkdir(`${newFile()}.tmp`, { recursive: true });
    const told: string[] = [];
    const report = (_: string, event: string) => told.push(event);
    const copy = await openDiskCopy(file, report, { retryMs: 10 });
    copy.write(withAccounts(record("k_1")));
    await eventually(() => assert.deepEqual(told, ["keys_copy_unwritten"]));
    await rm(`${file}.tmp`, { recursive: true });
    await eventually(() => assert.deepEqual(told, ["keys_copy_unwritten", "keys_copy_written"]));
    assert.match(await readFile(file, "utf8"), /"k_1"/);
    await copy.close();

    await mkdir(`${file}.tmp`);
    const late = await openDiskCopy(file, report, { retryMs: 60_000 });
    late.write(withAccounts(record("k_2")));
    await eventually(() => assert.equal(told.length, 3));
    await rm(`${file}.tmp`, { recursive: true });
    await late.close();
    assert.match(await readFile(file, "utf8"), /"k_2"/);
  });

  it("has the newest records, although older ones could not be written when these came", async () => {
    await mkdir(`${newFile()}.tmp`, { recursive: true });
    const told: string[] = [];
    const report = (_: string, event: string) => told.push(event);
    const copy = await openDiskCopy(file, report, { retryMs: 60_000 });
    copy.write(withAccounts(record("k_1")));
    copy.write(withAccounts(record("k_2")));
    await eventually(() => assert.deepEqual(told, ["keys_copy_unwritten"]));
    await rm(`${file}.tmp`, { recursive: true });
    await copy.close();
    assert.match(await readFile(file, "utf8"), /"k_2"/);
  });

  it("that is set aside keeps what an earlier process lost, revocations too", async () => {
    const [first, second, third] = [record("k_1"), record("k_2"), record("k_3")];
    const setAside = async (...keys: KeyRecord[]) => {
      const copy = await openDiskCopy(file, () => {});
      copy.setAside(withAccounts(...keys));
      await copy.close();
      return (await openDiskCopy(`${file}.lost`, () => {})).found?.records;
    };
    newFile();
    const revoked = { ...second, revokedMs: 5_000 };
    assert.deepEqual(await setAside(first, revoked), withAccounts(first, revoked));
    const named = { ...first, name: "newer" };
    assert.deepEqual(await setAside(second, third, named), withAccounts(revoked, third, named));
    assert.deepEqual((await setAside(third))?.keys, [third, revoked, named]);
    await writeFile(`${file}.lost`, "cut");
    assert.deepEqual(await setAside(third), withAccounts(third));
    const kept = (await readdir(join(file, ".."))).filter((name) => name.includes(".damaged."));
    assert.equal(await readFile(join(file, "..", kept[0] ?? ""), "utf8"), "cut");
  });

  it("is damaged where it is neither", async () => {
    await mkdir(join(newFile(), ".."), { recursive: true });
    await writeFile(file, "{}");
    const { found, damaged } = await openDiskCopy(file, () => {});
    assert.equal(found, undefined);
    assert.match(damaged?.message ?? "", /state\.json:1:1: Cannot use version/);
  });
});
