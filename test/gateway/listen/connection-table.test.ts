import assert from "node:assert/strict";
import { Socket } from "node:net";
import { describe, it } from "vitest";
import {
  type ConnectionsRefused,
  ConnectionTable,
  type OpenConnection,
} from "../../../src/gateway/listen/connection-table.ts";

const LIMITS = { connectionsMax: 1_000, perAddressMax: 0, headersTimeoutMs: 10_000 };

class Bench {
  nowMs = 1_000;
  readonly told: ConnectionsRefused[] = [];
  readonly refused: string[] = [];
  readonly table: ConnectionTable;

  constructor(limits: Partial<typeof LIMITS>) {
    this.table = new ConnectionTable(
      { ...LIMITS, ...limits },
      {
        onTurnedAway: (why) => this.refused.push(why),
        tell: (told) => this.told.push(told),
      },
    );
  }

  take(address?: string): OpenConnection | undefined {
    return this.table.take(new Socket(), address, this.nowMs);
  }

  /** One that has left its handshake behind: in use or not, used last at that instant. */
  serve(usedMs: number, inUse = false): OpenConnection {
    const connection = this.take();
    assert.ok(connection !== undefined);
    connection.http = {
      usedMs,
      inUse,
      keepAhead: () => {},
      awaitsKept: false,
      tick: () => {},
      end: () => connection.socket.destroy(),
    };
    return connection;
  }

  tick(nowMs: number): void {
    this.nowMs = nowMs;
    this.table.tick(nowMs);
  }
}

describe("The connections of a listener", () => {
  it("are closed for new ones in the order in which they were used last, however many", () => {
    const bench = new Bench({ connectionsMax: 500 });
    const all = Array.from({ length: 500 }, (_, i) => bench.serve(2_000 + ((i * 7_919) % 500)));
    bench.nowMs = 3_000;
    const leaving = all.toSorted((a, b) => (a.http?.usedMs ?? 0) - (b.http?.usedMs ?? 0));
    for (let i = 0; i < 400; i++) {
      bench.nowMs += 1;
      assert.ok(bench.take() !== undefined);
      const gone = all.filter(({ socket }) => socket.destroyed);
      assert.deepEqual(new Set(gone), new Set(leaving.slice(0, i + 1)), `after ${i + 1}`);
    }
    assert.equal(bench.table.size, 500);
  });

  it("stay where they were used since they were found to be idle", () => {
    const bench = new Bench({ connectionsMax: 3 });
    const [first, second, third] = [bench.serve(2_000), bench.serve(2_001), bench.serve(2_002)];
    bench.nowMs = 3_000;
    bench.take();
    assert.deepEqual([first.socket.destroyed, second.socket.destroyed], [true, false]);
    Object.assign(second.http ?? {}, { usedMs: 3_001 });
    bench.nowMs = 3_002;
    bench.take();
    assert.deepEqual([second.socket.destroyed, third.socket.destroyed], [false, true]);
  });

  it("are none of them closed while they are in use, and the new one is turned away", () => {
    const bench = new Bench({ connectionsMax: 2 });
    const busy = [bench.serve(0, true), bench.serve(0, true)];
    bench.nowMs += 1;
    assert.equal(bench.take(), undefined);
    assert.deepEqual(bench.refused, ["connections"]);
    assert.ok(busy.every(({ socket }) => !socket.destroyed));
  });

  it("count handshakes, which make room as idle ones do, and end at headersTimeout", () => {
    const bench = new Bench({ connectionsMax: 2 });
    const [first, second] = [bench.take(), bench.take()];
    bench.nowMs += 1;
    const third = bench.take();
    assert.deepEqual([first?.socket.destroyed, second?.socket.destroyed], [true, false]);
    bench.tick(11_000);
    assert.deepEqual([second?.socket.destroyed, third?.socket.destroyed], [true, false]);
    bench.tick(11_001);
    assert.equal(third?.socket.destroyed, true);
  });

  it("are fewer after a lower limit came into force", () => {
    const bench = new Bench({ connectionsMax: 10 });
    for (let i = 0; i < 10; i++) bench.take();
    bench.table.limits = { ...LIMITS, connectionsMax: 4 };
    bench.nowMs += 1;
    assert.ok(bench.take() !== undefined);
    assert.equal(bench.table.size, 4);
  });

  it("are none at all while the memory is full", () => {
    const bench = new Bench({ connectionsMax: 0 });
    assert.equal(bench.take("192.0.2.1"), undefined);
    assert.deepEqual(bench.refused, ["memory"]);
  });

  it("are counted by address, of IPv6 by /64, and given back when they close", async () => {
    const bench = new Bench({ perAddressMax: 2 });
    const first = bench.take("2001:db8:1:2::1");
    assert.ok(bench.take("2001:db8:1:2:ffff::2") !== undefined);
    assert.equal(bench.take("2001:db8:1:2::3"), undefined);
    assert.ok(bench.take("2001:db8:1:3::3") !== undefined, "another network");
    assert.ok(bench.take("192.0.2.1") !== undefined);
    const closed = new Promise((resolve) => first?.socket.once("close", resolve));
    first?.socket.destroy();
    await closed;
    assert.ok(bench.take("2001:db8:1:2::3") !== undefined);
    assert.equal(bench.take("2001:db8:1:2::4"), undefined);
    assert.deepEqual(bench.refused, ["address", "address"]);
  });

  it("are told about at once, then once a minute at most, with all that came in between", () => {
    const bench = new Bench({ perAddressMax: 1 });
    bench.tick(1_000);
    assert.equal(bench.told.length, 0);
    bench.take("192.0.2.1");
    bench.take("192.0.2.1");
    bench.tick(1_100);
    bench.take("192.0.2.1");
    bench.take("192.0.2.2");
    bench.take("192.0.2.2");
    bench.tick(61_099);
    assert.equal(bench.told.length, 1);
    bench.tick(61_100);
    bench.tick(200_000);
    bench.table.limits = { ...bench.table.limits, connectionsMax: 0 };
    bench.take("192.0.2.3");
    bench.tick(300_000);
    assert.deepEqual(bench.told, [
      { refused: { address: 1 }, closedIdle: 0, address: "192.0.2.1" },
      { refused: { address: 2 }, closedIdle: 0, address: "192.0.2.2" },
      { refused: { memory: 1 }, closedIdle: 0, address: undefined },
    ]);
  });
});
