import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { promisify } from "node:util";
import { describe, it } from "vitest";
import { startCountingProxy } from "../../../../src/cli/prove/trial/counting-proxy.ts";
import { METER } from "../../../../src/cli/prove/trial/workload.ts";
import { eventually } from "../../../support/poll.ts";

const TYPE = "application/json; charset=utf-8";

/** A proxy in front of pets that answer with what they were asked for. */
async function openProxied(isDoubling = false) {
  const asked: string[] = [];
  const pets = createServer(({ method, url }, response) => {
    asked.push(`${method} ${url}`);
    response.writeHead(201, { "Content-Type": TYPE }).end('{"pets":[]}');
  });
  pets.keepAliveTimeout = 0;
  await once(pets.listen(0, "127.0.0.1"), "listening");
  const { port } = pets.address() as AddressInfo;
  const proxy = await startCountingProxy(`http://127.0.0.1:${port}`, isDoubling);
  const ask = (id: string, operation = "pets", method = "GET") => {
    const headers = { "X-Request-Id": id, "X-Consumer-Id": "a_1" };
    return fetch(`${proxy.origin}/v1/${operation}`, { method, headers });
  };
  const close = async () => {
    await proxy.close();
    pets.close();
  };
  return { proxy, pets, asked, ask, [Symbol.asyncDispose]: close };
}

describe("the proxy of a proof", () => {
  it("passes on the whole answer of the pets, whatever operation was asked for", async () => {
    await using house = await openProxied();
    const answer = await house.ask("one", "few", "POST");
    const type = answer.headers.get("content-type");
    assert.deepEqual([answer.status, type, await answer.text()], [201, TYPE, '{"pets":[]}']);
    assert.equal(answer.headers.get(METER.field), null, "another operation takes no meter");
    assert.deepEqual(house.asked, ["POST /v1/pets?limit=1"]);
  });

  it("tells the units of the meter in the answer and counts them for the account, up to the most", async () => {
    await using house = await openProxied();
    let told = 0;
    for (let i = 0; i < 4; i++) {
      const answer = await house.ask(`m${i}`, METER.operation);
      const units = Number(answer.headers.get(METER.field));
      assert.ok(units >= 0 && units <= METER.max, `${units}`);
      told += units;
      await answer.text();
    }
    assert.ok(told > 0);
    assert.deepEqual([house.proxy.usedBy("a_1"), house.proxy.usedBy("a_2")], [told, 0]);
  });

  it("counts requests, and as twice those whose id came before", async () => {
    await using house = await openProxied();
    for (const id of ["one", "two", "one", "one"]) await (await house.ask(id)).text();
    assert.deepEqual(house.proxy.seen(), { requests: 4, twice: 1 });
  });

  it("with the fault planted it forwards one of ten twice, and answers it once", async () => {
    await using house = await openProxied(true);
    for (let i = 0; i < 10; i++) assert.equal((await house.ask(`r${i}`)).status, 201);
    assert.deepEqual(house.proxy.seen(), { requests: 11, twice: 1 });
  });

  it("with the fault planted it tells an account the units of its meter once", async () => {
    await using house = await openProxied(true);
    let told = 0;
    for (let i = 0; i < 10; i++) {
      const answer = await house.ask(`m${i}`, METER.operation);
      told += Number(answer.headers.get(METER.field));
      await answer.text();
    }
    assert.deepEqual([house.proxy.seen().twice, house.proxy.usedBy("a_1")], [1, told]);
  });

  it("closes also where a connection has asked for nothing", async () => {
    const proxy = await startCountingProxy("http://127.0.0.1:1", false);
    const silent = connect(Number(new URL(proxy.origin).port), "127.0.0.1").resume();
    await once(silent, "connect");
    await Promise.all([once(silent, "close"), proxy.close()]);
  });

  it("keeps no connection to the pets once it is closed", async () => {
    await using house = await openProxied();
    await (await house.ask("one")).text();
    const connections = promisify(house.pets.getConnections.bind(house.pets));
    assert.equal(await connections(), 1);
    await house.proxy.close();
    await eventually(async () => assert.equal(await connections(), 0));
  });

  it("breaks off where the pets are gone, and answers nothing in their name", async () => {
    const proxy = await startCountingProxy("http://127.0.0.1:1", false);
    await assert.rejects(fetch(`${proxy.origin}/v1/pets`), TypeError);
    await proxy.close();
  });
});
