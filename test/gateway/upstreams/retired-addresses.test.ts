import assert from "node:assert/strict";
import type { LookupAddress } from "node:dns";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "vitest";
import type { AskAddresses } from "../../../src/gateway/upstreams/host-addresses.ts";
import type { UpstreamConnection } from "../../../src/gateway/upstreams/upstream.ts";
import { eventually } from "../../support/poll.ts";
import { poolOf, take } from "./pool.ts";

const ONE = "127.0.0.1";
const TWO = "127.0.0.2";
const HELD = "/held";

/** Backends at one port of two addresses. Each answers with its address, but holds `/held`. */
class Backends {
  readonly held: ServerResponse[] = [];
  readonly #servers = new Map<string, Server>();
  /** Connections that were ever made to each of them. */
  readonly connections: string[] = [];
  readonly closed: string[] = [];
  port = 0;

  async open(): Promise<this> {
    for (const address of [ONE, TWO]) {
      const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
        if (request.url === HELD) this.held.push(response);
        else response.end(address);
      });
      server.on("connection", (socket) => {
        this.connections.push(address);
        socket.once("close", () => this.closed.push(address));
      });
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject).listen(this.port, address, resolve);
      });
      this.port = (server.address() as AddressInfo).port;
      this.#servers.set(address, server);
    }
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.#servers.values()) {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    }
  }
}

/** A pool of one name, on a clock and with a resolver that the test moves. */
async function openNamed(host = "pets.test") {
  const backends = await new Backends().open();
  let answer: readonly string[] | Error = [ONE];
  let asked = 0;
  const askAddresses: AskAddresses = (name, _family, onAnswer) => {
    assert.equal(name, "pets.test");
    asked += 1;
    if (answer instanceof Error) onAnswer(answer, []);
    else
      onAnswer(
        null,
        answer.map((address): LookupAddress => ({ address, family: 4 })),
      );
  };
  const origins = [`http://${host}:${backends.port}`];
  const pool = poolOf(origins, { idleMsMax: 3_600_000, askAddresses });
  const { upstreams, clock } = pool;
  return {
    backends,
    upstreams,
    asked: () => asked,
    /** The resolver answers so, half a minute later. */
    resolves(next: readonly string[] | Error): void {
      answer = next;
      clock.ms += 30_000;
      upstreams.probe();
    },
    async [Symbol.asyncDispose]() {
      await pool[Symbol.asyncDispose]();
      await backends[Symbol.asyncDispose]();
    },
  };
}

type Named = Awaited<ReturnType<typeof openNamed>>;

/** The body of the response; its connection is idle again, unless it was closed. */
async function ask({ upstreams }: Named, target = "/"): Promise<string> {
  const connection = take(upstreams);
  const body = await bodyOf(connection, target);
  upstreams.release(connection);
  const [upstream] = upstreams.all;
  await eventually(() => assert.ok(upstream?.load.idle.includes(connection)));
  return body;
}

function bodyOf(connection: UpstreamConnection, target: string): Promise<string> {
  const request = { method: "GET", target, host: "pets.test", fields: [], body: undefined };
  return new Promise((resolve, reject) => {
    let body = "";
    connection.send(request, {
      onStart: () => {},
      onSending: () => {},
      onDrain: () => {},
      onSent: () => {},
      onInterim: () => {},
      onHead: () => {},
      onData: (piece) => {
        body += piece.toString();
      },
      onReadEnd: () => {},
      onEnd: () => resolve(body),
      onFailure: ({ why }) => reject(new Error(why)),
    });
  });
}

describe("a connection to an address that its name leads to no more", () => {
  it("is used after one answer without the address, and after two it gets no request", async () => {
    await using named = await openNamed();
    const { backends } = named;
    assert.equal(await ask(named), ONE);
    named.resolves([TWO]);
    assert.equal(await ask(named), ONE, "a resolver may answer with some of the addresses in turn");
    named.resolves([TWO]);
    assert.equal(await ask(named), TWO);
    assert.equal(await ask(named), TWO);
    assert.deepEqual(backends.connections, [ONE, TWO], "those to the new address are kept");
  });

  it("is closed while it is idle, without a request that asks for it", async () => {
    await using named = await openNamed();
    await ask(named);
    named.resolves([TWO]);
    named.resolves([TWO]);
    named.upstreams.probe();
    await eventually(() => assert.deepEqual(named.backends.closed, [ONE]));
  });

  it("finishes the request that it carries, and is not used again", async () => {
    await using named = await openNamed();
    const { backends, upstreams } = named;
    const connection = take(upstreams);
    const body = bodyOf(connection, HELD);
    await eventually(() => assert.equal(backends.held.length, 1));
    const [held] = backends.held;
    held?.write("half ");
    for (let i = 0; i < 3; i++) named.resolves([TWO]);
    held?.end("and whole");
    assert.equal(await body, "half and whole");
    upstreams.release(connection);
    await eventually(() => assert.ok(upstreams.all[0]?.load.idle.includes(connection)));
    assert.equal(await ask(named), TWO);
    await eventually(() => assert.deepEqual(backends.closed, [ONE]));
  });

  it("is used as before if the address is back, and if it was back in between", async () => {
    await using named = await openNamed();
    await ask(named);
    for (const answer of [[TWO], [ONE], [TWO], [TWO, ONE]]) {
      named.resolves(answer);
      assert.equal(await ask(named), ONE, answer.join());
    }
    named.resolves([TWO]);
    named.resolves([TWO]);
    assert.equal(await ask(named), TWO);
    named.resolves([ONE]);
    assert.equal(await ask(named), TWO, "one answer is too few again");
    named.resolves([ONE]);
    assert.equal(await ask(named), ONE);
    assert.equal(await ask(named), ONE);
    assert.deepEqual(named.backends.connections, [ONE, TWO, ONE]);
  });
});

describe("a connection to an address that its name still leads to", () => {
  it("is used while the resolver fails or knows none, however long, also between two answers", async () => {
    await using named = await openNamed();
    await ask(named);
    named.resolves([TWO]);
    for (const answer of [new Error("SERVFAIL"), [], new Error("ETIMEOUT"), []]) {
      named.resolves(answer);
      assert.equal(await ask(named), ONE);
    }
    assert.equal(named.asked(), 6);
    named.resolves([TWO]);
    assert.equal(await ask(named), TWO);
  });

  it("is used where others came, and where others went", async () => {
    await using named = await openNamed();
    await ask(named);
    for (const answer of [[TWO, ONE], [TWO, ONE], [ONE], [ONE], [ONE]]) {
      named.resolves(answer);
      assert.equal(await ask(named), ONE, answer.join());
    }
    assert.deepEqual(named.backends.connections, [ONE]);
  });

  it("is used where it came after another one was retired", async () => {
    await using named = await openNamed();
    for (const answer of [[ONE], [TWO], [TWO], [TWO, ONE]]) {
      named.resolves(answer);
      await ask(named);
    }
    const busy = take(named.upstreams);
    for (const body of [ONE, ONE]) assert.equal(await ask(named), body);
    named.upstreams.release(busy);
    assert.deepEqual(named.backends.connections, [ONE, TWO, ONE]);
  });

  it("is used if the name leads to 0.0.0.0, which the system connects to 127.0.0.1", async () => {
    await using named = await openNamed();
    await ask(named);
    for (const answer of [[TWO], [TWO], ["0.0.0.0"]]) named.resolves(answer);
    for (let i = 0; i < 3; i++) assert.equal(await ask(named), ONE);
    named.resolves(["0.0.0.0"]);
    for (let i = 0; i < 3; i++) assert.equal(await ask(named), ONE);
    assert.deepEqual(named.backends.connections, [ONE, ONE], "one before and one after");
  });

  it("is used for ever if the origin names the address itself, and no resolver is asked", async () => {
    await using named = await openNamed(ONE);
    for (let i = 0; i < 4; i++) {
      assert.equal(await ask(named), ONE);
      named.resolves([TWO]);
    }
    assert.equal(named.asked(), 0);
    assert.deepEqual(named.backends.connections, [ONE]);
  });
});
