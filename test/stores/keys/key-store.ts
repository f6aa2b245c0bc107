import assert from "node:assert/strict";
import { afterEach, describe, it } from "vitest";
import { type AccountRecord, NO_RECORDS } from "../../../src/core/keys/records.ts";
import type { KeyStore } from "../../../src/stores/keys/key-store.ts";
import { startNode } from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { accountFor, add, record } from "./record.ts";

/** One place that several stores of one test share; `clear` empties it for the next test. */
export type KeyPlace = {
  open(watch: boolean): Promise<KeyStore>;
  clear(): Promise<void>;
  /**
   * The arguments with which test/stores/keys/writer.ts opens the same place from another process.
   */
  writerArgs(): readonly string[];
};

/** The promises of KeyStore: a new store calls this, a changed promise changes here. */
export function describeKeyStore(engine: string, place: KeyPlace): void {
  const opened: KeyStore[] = [];
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
    await place.clear();
  });
  async function open(watch = true): Promise<KeyStore> {
    const store = await place.open(watch);
    opened.push(store);
    return store;
  }

  describe(`${engine}`, () => {
    it("starts without keys, ready and well", async () => {
      const store = await open();
      assert.deepEqual(
        [store.ready, store.records().keys, store.health()],
        [true, [], { ok: true }],
      );
      assert.equal(store.find("0".repeat(64)), undefined);
    });

    it("gives back every member of a record, to a store that opens later too", async () => {
      const whole = record("k_whole", {
        name: 'Ünï ☂ "quoted"',
        account: "acme.eu-1",
        scopes: ["beta", "orders:write"],
        from: ["192.0.2.0/24", "2001:db8::/32"],
        expiresMs: Date.UTC(2030, 11, 5, 0, 0, 0, 1),
        revokedMs: Date.UTC(2026, 1, 2, 3, 4, 5, 678),
        replacedBy: "k_next",
      });
      const plain = record("k_plain");
      const store = await open();
      await add(store, whole, plain);
      for (const each of [store, await open(false)]) {
        assert.deepEqual(each.find(whole.digest), whole);
        assert.deepEqual(each.find(plain.digest), plain);
        assert.equal(each.records().keys.length, 2);
        assert.deepEqual(each.account("acme.eu-1"), accountFor(whole));
      }
    });

    it("gives back every member of an account, and changes it in place", async () => {
      const store = await open();
      const key = record("k_1", { account: "acme" });
      await add(store, key);
      const account: AccountRecord = {
        id: "acme",
        environment: "production",
        plan: "enterprise",
        limits: [
          { window: "minute", limit: 1 },
          { window: "month", limit: 1e12 },
        ],
        meta: { tenant: "42", "a-b": "=x" },
        createdMs: Date.UTC(2026, 0, 1),
        suspended: { sinceMs: 5, untilMs: Date.UTC(2030, 0, 1), reason: 'unpaid "twice"' },
      };
      await store.change(({ keys }) => ({ records: { keys, accounts: [account] }, result: 0 }));
      for (const each of [store, await open(false)]) {
        assert.deepEqual(each.account("acme"), account);
        assert.deepEqual(each.find(key.digest), key);
      }
    });

    it("reads metadata with an empty value, which earlier builds wrote, as none of that name", async () => {
      const store = await open(false);
      const account = { ...accountFor(record("k_1", { account: "acme" })), meta: { tenant: "" } };
      const other = { ...account, id: "other", meta: { tenant: "", team: "a" } };
      await store.change(() => ({ records: { keys: [], accounts: [account, other] }, result: 0 }));
      const later = await open(false);
      const metaOf = (id: string) => later.account(id)?.meta;
      assert.deepEqual([metaOf("acme"), metaOf("other")], [{}, { team: "a" }]);
      assert.deepEqual(later.health(), { ok: true });
      await add(later, record("k_2", { account: "acme" }));
      assert.deepEqual([metaOf("acme"), metaOf("other")], [{}, { team: "a" }]);
    });

    it("refuses a key whose account is not there", async () => {
      const store = await open();
      const lone = { keys: [record("k_1")], accounts: [] };
      await assert.rejects(
        store.change(() => ({ records: lone, result: 0 })),
        /account is missing/,
      );
      assert.deepEqual(store.records(), NO_RECORDS);
    });

    it("reads the newest records when it is asked to", async () => {
      const [reader, writer] = [await open(false), await open(false)];
      const fresh = record("k_1");
      await add(writer, fresh);
      await reader.refresh();
      assert.deepEqual(reader.find(fresh.digest), fresh);
    });

    it("gives the editor the newest records, and its result to the caller", async () => {
      const [first, second] = [await open(false), await open(false)];
      await add(first, record("k_1"));
      const told = await second.change((records) => ({ records, result: records.keys[0]?.id }));
      assert.equal(told, "k_1");
    });

    it("replaces, and takes out, exactly the records that an edit says", async () => {
      const store = await open(false);
      const [one, two, three] = [record("k_1"), record("k_2"), record("k_3")];
      await add(store, one, two, three);
      const revoked = { ...two, revokedMs: 5 };
      await store.change(({ accounts }) => ({
        records: { keys: [one, revoked], accounts: accounts.slice(0, 2) },
        result: 0,
      }));
      for (const each of [store, await open(false)]) {
        assert.deepEqual(each.find(two.digest), revoked);
        assert.deepEqual([each.find(three.digest), each.records().keys.length], [undefined, 2]);
      }
    });

    it("keeps everything as it was when the editor throws, and goes on", async () => {
      const store = await open();
      await add(store, record("k_1"));
      const broken = () => {
        throw new RangeError("no");
      };
      await assert.rejects(store.change(broken), /^RangeError: no$/);
      await add(store, record("k_2"));
      assert.equal(store.records().keys.length, 2);
    });

    it("refuses an id or a digest that comes twice", async () => {
      const store = await open();
      const first = record("k_1");
      await add(store, first);
      await assert.rejects(add(store, record("k_1")), /an id or a digest comes twice/);
      const copy = record("k_2", { digest: first.digest });
      await assert.rejects(add(store, copy), /an id or a digest comes twice/);
      assert.deepEqual(store.records().keys, [first]);
    });

    it("sees the change of another store within a second, and tells its listeners", async () => {
      const [reader, writer] = [await open(), await open(false)];
      let changes = 0;
      reader.onChange(() => {
        changes += 1;
      });
      const tookMs: number[] = [];
      for (const id of ["k_1", "k_2", "k_3"]) {
        const fresh = record(id);
        await add(writer, fresh);
        const doneMs = performance.now();
        await eventually(() => reader.find(fresh.digest) !== undefined);
        tookMs.push(performance.now() - doneMs);
      }
      // The quickest of three: a busy machine may hold up one of them.
      assert.ok(Math.min(...tookMs) < 1_000, `${tookMs} ms`);
      assert.equal(changes, 3);
      const [first] = writer.records().keys;
      assert.ok(first);
      const revoked = { ...first, revokedMs: 1 };
      await writer.change((before) => ({ records: { ...before, keys: [revoked] }, result: 0 }));
      await eventually(() => reader.find(first.digest)?.revokedMs === 1);
      await eventually(() => assert.deepEqual([changes, reader.records().keys.length], [4, 1]));
    });

    it("tells nobody when an edit changes nothing", async () => {
      const store = await open();
      await add(store, record("k_1"));
      let changes = 0;
      store.onChange(() => {
        changes += 1;
      });
      await store.change((records) => ({ records, result: 0 }));
      assert.equal(changes, 0);
    });

    it("loses no change of fifty at once from one store and another", async () => {
      const [one, other] = [await open(), await open(false)];
      const records = Array.from({ length: 50 }, (_, i) => record(`k_${i}`));
      await Promise.all(records.map((each, i) => add(i % 2 === 0 ? one : other, each)));
      const fresh = await open(false);
      assert.deepEqual(
        fresh
          .records()
          .keys.map(({ id }) => id)
          .sort(),
        records.map(({ id }) => id).sort(),
      );
    });

    // A machine under load takes a minute to start as many processes.
    const patient = { timeout: 300_000 };
    it("loses no change of twenty processes that write at once", patient, async () => {
      const writer = new URL("./writer.ts", import.meta.url).pathname;
      const running = Array.from({ length: 20 }, (_, i) => {
        return startNode([writer, `w${i}`, "3", ...place.writerArgs()]);
      });
      for (const { exited } of running) {
        const { code, stderr } = await exited;
        assert.equal(code, 0, stderr);
      }
      const ids = (await open(false)).records().keys.map(({ id }) => id);
      const expected = running.flatMap((_, i) => [`w${i}_0`, `w${i}_1`, `w${i}_2`]);
      assert.deepEqual(ids.sort(), expected.sort());
    });
  });
}
