import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { EventStream } from "../../../src/admin/http/event-stream.ts";
import { each } from "../../support/each.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { openAdminHouse, TOKEN } from "../admin-house.ts";

type Message = { readonly event: string; readonly data: Record<string, unknown> };

/** Reads a stream until it has so many messages, then leaves. `then` is called after the second. */
async function read(
  url: string,
  wanted: number,
  then?: () => Promise<unknown>,
  headers: Readonly<Record<string, string>> = {},
) {
  const leave = new AbortController();
  const response = await fetch(url, { signal: leave.signal, headers });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  assert.equal(response.headers.get("cache-control"), "no-store");
  const messages: Message[] = [];
  let text = "";
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece;
    const whole = text.split("\n\n");
    text = whole.pop() ?? "";
    for (const one of whole) {
      const [, event = "", data = ""] = /^event: (.*)\ndata: (.*)$/.exec(one) ?? [];
      messages.push({ event, data: JSON.parse(data) });
      if (messages.length === 2) await then?.();
    }
    if (messages.length >= wanted) break;
  }
  leave.abort();
  return messages;
}

describe("GET /api/events", () => {
  it("begins with the routes that there are, and tells figures at once and each second, and an event once", async () => {
    await using house = await startTestGateway();
    const { key } = await house.issue();
    for (let i = 0; i < 3; i++) await (await house.ask(key)).text();
    const startMs = performance.now();
    const messages = await read(`${house.adminUrl}/api/events`, 6, () => house.issue());
    const [hello, first, second] = messages.filter(({ event }) => event !== "happened");
    assert.equal(hello?.event, "hello");
    assert.ok(((hello?.data.routes ?? []) as string[]).includes("POST /api/keys/:id/revoke"));
    assert.equal(first?.event, "figures");
    assert.deepEqual(first?.data.answered, { 200: 3 });
    assert.deepEqual(first?.data.ownAnswers, {});
    const { edition, ...bans } = (first?.data.bans ?? {}) as Record<string, number>;
    assert.deepEqual([bans, typeof edition], [{ imposed: 0, inForce: 0 }, "number"]);
    assert.ok(((hello?.data.readings ?? []) as unknown[]).length > 0);
    assert.deepEqual(first?.data.plans, [
      { environment: "production", plan: "free", admitted: 3, refused: 0 },
    ]);
    assert.ok((second?.data.atMs as number) > (first?.data.atMs as number));
    assert.ok(performance.now() - startMs >= 900, "the second comes a second later");
    const instants = messages.flatMap(({ event, data }) =>
      event === "figures" ? [data.atMs] : [],
    );
    const gapsMs = (instants as number[]).slice(1).map((ms, i) => ms - Number(instants[i]));
    assert.ok(Math.min(...gapsMs) < 1_900, `${gapsMs}`);
    const happened = messages.filter(({ event }) => event === "happened");
    assert.deepEqual(
      happened.map(({ data }) => data.kind),
      ["key_issued"],
    );
  });

  it("wants the token, and its own Host and Origin, as all of /api does", async () => {
    await using house = await openAdminHouse();
    assert.equal((await house.ask("GET", "/api/events", { token: "" })).status, 401);
    const foreign = { Origin: "http://attacker.example" };
    assert.equal((await house.ask("GET", "/api/events", { fields: foreign })).status, 403);
    const rebound = { Host: "attacker.example" };
    assert.equal((await house.ask("GET", "/api/events", { fields: rebound })).status, 403);
  });

  it("answers HEAD without a stream", async () => {
    await using house = await openAdminHouse();
    const head = await house.ask("HEAD", "/api/events");
    assert.deepEqual([head.status, head.text], [200, ""]);
  });

  it("refuses the seventeenth watcher, and takes another when one has left", async () => {
    await using house = await startTestGateway();
    const leave = new AbortController();
    const one = () => fetch(`${house.adminUrl}/api/events`, { signal: leave.signal });
    const all = await Promise.all(Array.from({ length: 16 }, one));
    assert.ok(each(all).every(({ status }) => status === 200));
    const refused = await fetch(`${house.adminUrl}/api/events`);
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get("retry-after"), "5");
    const { code, message } = (await refused.json()) as { code: string; message: string };
    assert.equal(code, "too_many_watchers");
    assert.equal(message, "At most 16 watch at a time: close another page");
    leave.abort();
    await eventually(async () => (await read(`${house.adminUrl}/api/events`, 1)).length > 0);
  });

  it("ends the oldest stream for a seventeenth watcher once that has lasted its time, and no other", async () => {
    await using house = await openAdminHouse({ limits: { streamMs: 0 } });
    const [leave, ended] = [new AbortController(), [] as number[]];
    const watch = async (index: number) => {
      const headers = { Authorization: `Bearer ${TOKEN}` };
      const asked = { headers, signal: leave.signal };
      const { status, body } = await fetch(`${house.url}/api/events`, asked);
      assert.equal(status, 200);
      const read = body?.pipeTo(new WritableStream()) ?? Promise.resolve();
      void read.then(() => ended.push(index)).catch(() => {});
    };
    for (let index = 0; index < 16; index++) await watch(index);
    assert.equal((await house.ask("HEAD", "/api/events")).status, 200);
    for (const one of [0, 1]) {
      await watch(16 + one);
      await eventually(() => assert.equal(ended.at(-1), one));
    }
    assert.deepEqual(ended, [0, 1]);
    leave.abort();
  });

  it("tells every event that happens within a turn, however many, or ends", async () => {
    await using house = await openAdminHouse();
    const numbersOf = async (count: number) => {
      const before = house.recent.last;
      const happen = async () => {
        for (let time = 1; time <= count; time++) house.recent.add({ kind: "ban_lifted", time });
      };
      const headers = { Authorization: `Bearer ${TOKEN}` };
      const wanted = 3 + count;
      const messages = await read(`${house.url}/api/events`, wanted, happen, headers);
      const happened = messages.filter(({ event }) => event === "happened");
      return happened.map(({ data }) => Number(data.number) - before);
    };
    for (const count of [450, 10_000]) {
      const all = Array.from({ length: count }, (_, i) => i + 1);
      assert.deepEqual(await numbersOf(count), all);
    }
    assert.deepEqual(await numbersOf(10_001), [], "it ended");
  });

  it("ends with the admin listener, which waits for no watcher", async () => {
    const house = await startTestGateway();
    const response = await fetch(`${house.adminUrl}/api/events`);
    const text = response.text();
    const startMs = performance.now();
    const { stalledMs } = await watchStalls(async () => {
      await house[Symbol.asyncDispose]();
    });
    assert.match(await text, /^event: hello\n/);
    assert.ok(performance.now() - startMs < 3_000 + stalledMs);
  });
});

describe("the stream", () => {
  it("reads nothing while nobody watches, and stops reading when the last one leaves", async () => {
    let readings = 0;
    const stream = new EventStream({
      ...{ everyMs: 10, watchersMax: 2, keptMs: 60_000, token: () => "", begin: () => {} },
      read: async () => [{ event: "tick", data: String(++readings) }],
    });
    await sleep(50);
    assert.equal(readings, 0);
    const [a, b] = [new Watcher(), new Watcher()];
    for (const one of [a, b]) stream.open({}).stream?.(one as never);
    await eventually(() => a.written.length > 4 && b.written.length > 4);
    const both = Math.max(a.written.length, b.written.length);
    assert.ok(readings <= both, "one reading serves all");
    for (const one of [a, b]) one.leave();
    const last = readings;
    await sleep(60);
    assert.ok(readings <= last + 1);
    assert.equal(stream.clientCount, 0);
  });

  it("keeps a reader that takes what there is now and then, however often it does not", async () => {
    let ticks = 0;
    const late = new Watcher();
    const stream = new EventStream({
      ...{ everyMs: 2, watchersMax: 1, keptMs: 60_000, token: () => "", begin: () => {} },
      read: async () => {
        ticks += 1;
        late.writableNeedDrain = ticks % 10 !== 0;
        return [{ event: "tick", data: String(ticks) }];
      },
    });
    stream.open({}).stream?.(late as never);
    await eventually(() => late.destroyed || ticks >= 50);
    assert.equal(late.destroyed, false);
    stream.close();
  });

  it("cuts a reader that takes nothing, and goes on for the others", async () => {
    let missed = 0;
    const [slow, quick] = [new Watcher(), new Watcher()];
    const stream = new EventStream({
      ...{ everyMs: 5, watchersMax: 2, keptMs: 60_000, token: () => "", begin: () => {} },
      read: async () => {
        if (!slow.destroyed) missed += 1;
        return [{ event: "tick", data: "1" }];
      },
    });
    slow.writableNeedDrain = true;
    for (const one of [slow, quick]) stream.open({}).stream?.(one as never);
    await eventually(() => slow.destroyed);
    assert.equal(missed, 16, "the one that finds it cut, after 15");
    assert.equal(slow.written.length, 1, "hello alone");
    assert.ok(quick.written.length > 10);
    assert.equal(quick.destroyed, false);
    stream.close();
    assert.equal(quick.ended, true);
    assert.equal(stream.open({}).status, 503);
  });

  it("owes a slow reader what happened, once and in its order, and no figures that are past", async () => {
    let turns = 0;
    const slow = new Watcher();
    const stream = new EventStream({
      ...{ everyMs: 2, watchersMax: 1, keptMs: 60_000, token: () => "", begin: () => {} },
      read: async () => {
        turns += 1;
        slow.writableNeedDrain = turns > 1 && turns < 5;
        return [
          { event: "figures", data: String(turns), isPassing: true },
          { event: "happened", data: String(turns) },
        ];
      },
    });
    stream.open({}).stream?.(slow as never);
    await eventually(() => assert.ok(slow.written.length > 3));
    stream.close();
    const told = slow.written
      .slice(0, 4)
      .join("")
      .match(/(?<=event: )\w+\ndata: .+/g);
    const names = told?.map((one) => one.replace("\ndata:", ""));
    assert.deepEqual(names, [
      ...["hello {}", "figures 1", "happened 1", "happened 2", "happened 3", "happened 4"],
      ...["figures 5", "happened 5", "figures 6", "happened 6"],
    ]);
  });

  it("cuts a reader that is owed more than a mebibyte, and keeps one that is owed as much", async () => {
    const owed = { reader: new Watcher(), turns: 0 };
    const text = "event: happened\ndata: \n\n";
    const data = "ü".repeat((524_288 - text.length) / 2);
    const stream = new EventStream({
      ...{ everyMs: 2, watchersMax: 1, keptMs: 60_000, token: () => "", begin: () => {} },
      read: async () => {
        owed.turns += 1;
        if (owed.turns === 3) assert.equal(owed.reader.destroyed, false);
        return [{ event: "happened", data: owed.turns < 3 ? data : "" }];
      },
    });
    owed.reader.writableNeedDrain = true;
    stream.open({}).stream?.(owed.reader as never);
    await eventually(() => assert.ok(owed.reader.destroyed));
    assert.equal(owed.turns, 3);
    stream.close();
  });

  it("tells each reader at once, and begins again with the first after a time without any", async () => {
    let begins = 0;
    const stream = new EventStream({
      ...{ everyMs: 3_600_000, watchersMax: 2, keptMs: 60_000, token: () => "" },
      begin: () => {
        begins += 1;
      },
      read: async () => [{ event: "tick", data: String(begins) }],
    });
    for (const expected of [1, 2]) {
      const [first, second] = [new Watcher(), new Watcher()];
      for (const one of [first, second]) {
        stream.open({}).stream?.(one as never);
        await eventually(() => one.written.length === 2);
      }
      assert.equal(begins, expected);
      for (const one of [first, second]) one.leave();
    }
  });

  it("reads no second time while a reading takes longer than a turn", async () => {
    const [slow, held] = [new Watcher(), Promise.withResolvers<[]>()];
    let [turns, readings] = [0, 0];
    const stream = new EventStream({
      ...{ everyMs: 1, watchersMax: 1, keptMs: 60_000, begin: () => {} },
      token: () => {
        turns += 1;
        return "";
      },
      read: () => {
        readings += 1;
        return held.promise;
      },
    });
    stream.open({}).stream?.(slow as never);
    await eventually(() => turns > 5);
    assert.equal(readings, 1);
    held.resolve([]);
    stream.close();
    const last = turns;
    await sleep(20);
    assert.equal(turns, last, "it has no turns any more");
  });

  it("reads nothing for readers whose token is in force no more", async () => {
    const reader = new Watcher();
    let [token, readings] = ["old", 0];
    const stream = new EventStream({
      ...{ everyMs: 1, watchersMax: 1, keptMs: 60_000, token: () => token, begin: () => {} },
      read: async () => {
        readings += 1;
        return [];
      },
    });
    stream.open({}).stream?.(reader as never);
    await eventually(() => readings > 2);
    token = "new";
    const last = readings;
    await eventually(() => reader.ended);
    await sleep(5);
    assert.equal(readings, last);
  });

  it("cuts a reader that takes nothing when it ends, as nothing would end its connection later", async () => {
    let token = "old";
    const [slow, quick] = [new Watcher(), new Watcher()];
    const stream = new EventStream({
      ...{ everyMs: 1, watchersMax: 2, keptMs: 60_000, token: () => token, begin: () => {} },
      read: async () => [],
    });
    for (const one of [slow, quick]) stream.open({}).stream?.(one as never);
    slow.writableNeedDrain = true;
    token = "new";
    await eventually(() => quick.ended);
    assert.deepEqual([slow.destroyed, quick.destroyed, stream.clientCount], [true, false, 0]);
  });

  it("ends with its listener for a reader that has its answer and no stream yet", () => {
    const stream = new EventStream({
      ...{ everyMs: 3_600_000, watchersMax: 1, keptMs: 60_000, token: () => "", begin: () => {} },
      read: async () => [],
    });
    const [late, { stream: start }] = [new Watcher(), stream.open({})];
    stream.close();
    start?.(late as never);
    assert.deepEqual([late.ended, stream.clientCount], [true, 0]);
  });
});

/** The side of a response that a stream sees. */
class Watcher {
  readonly written: string[] = [];
  writableNeedDrain = false;
  destroyed = false;
  ended = false;
  #onClose: () => void = () => {};

  write(text: string): void {
    this.written.push(text);
  }

  once(_event: "close", listener: () => void): void {
    this.#onClose = listener;
  }

  end(): void {
    this.ended = true;
  }

  destroy(): void {
    this.destroyed = true;
    this.#onClose();
  }

  leave(): void {
    this.#onClose();
  }
}
