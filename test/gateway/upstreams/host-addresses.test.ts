import assert from "node:assert/strict";
import type { LookupAddress } from "node:dns";
import {
  type AddressInfo,
  createServer,
  getDefaultAutoSelectFamilyAttemptTimeout,
  type LookupFunction,
  setDefaultAutoSelectFamilyAttemptTimeout,
} from "node:net";
import { describe, it, onTestFinished } from "vitest";
import { type AskAddresses, HostAddresses } from "../../../src/gateway/upstreams/host-addresses.ts";
import { openSocket } from "../../../src/http1/client/socket.ts";
import { eventually } from "../../support/poll.ts";

const ONE: LookupAddress = { address: "127.0.0.1", family: 4 };
const TWO: LookupAddress = { address: "127.0.0.2", family: 4 };
const THREE: LookupAddress = { address: "127.0.0.3", family: 4 };
const SIX: LookupAddress = { address: "2001:db8::6", family: 6 };

/** A resolver that a test answers for, on a clock that it moves. */
class Names {
  elapsedMs = 0;
  asked = 0;
  answer: readonly LookupAddress[] | Error = [ONE, TWO];
  /** The code of the answer to a question for the addresses of one family. */
  ofFamily = "ENOTFOUND";
  readonly addresses = new HostAddresses("pets.test", () => this.elapsedMs, this.#ask());

  /** The addresses in the order in which they would be tried; an error as its message. */
  async next(): Promise<string> {
    return await new Promise((resolve) => {
      this.addresses.lookup("pets.test", { all: true }, (error, addresses) => {
        if (error !== null) resolve(error.message);
        else resolve((addresses as LookupAddress[]).map(({ address }) => address.at(-1)).join(""));
      });
    });
  }

  #ask(): AskAddresses {
    return (host, family, onAnswer) => {
      assert.equal(host, "pets.test");
      this.asked += 1;
      const answer =
        family === 0 ? this.answer : Object.assign(new Error(), { code: this.ofFamily });
      if (answer instanceof Error) onAnswer(answer, []);
      else onAnswer(null, answer);
    };
  }
}

describe("a name with several addresses", () => {
  it("is asked once, and gives them in turn, all others behind the one whose turn it is", async () => {
    const names = new Names();
    names.answer = [ONE, TWO, THREE];
    const orders = [];
    for (let i = 0; i < 4; i++) orders.push(await names.next());
    assert.deepEqual(orders, ["123", "231", "312", "123"]);
    assert.equal(names.asked, 1);
  });

  it("gives one where one is wanted", async () => {
    const names = new Names();
    const one = () =>
      new Promise((resolve) => {
        const told: Parameters<LookupFunction>[2] = (_error, address) => resolve(address);
        names.addresses.lookup("pets.test", {}, told);
      });
    assert.deepEqual([await one(), await one()], ["127.0.0.1", "127.0.0.2"]);
  });

  it("is asked again every 30 s, and not before; what it has then takes the place of the others", async () => {
    const names = new Names();
    await names.next();
    names.answer = [THREE];
    names.elapsedMs = 29_999;
    names.addresses.refresh();
    assert.equal(names.asked, 1);
    names.elapsedMs = 30_000;
    names.addresses.refresh();
    names.addresses.refresh();
    assert.equal(names.asked, 2);
    assert.equal(await names.next(), "3");
  });

  it("keeps the last known ones while the resolver fails, or knows none", async () => {
    const names = new Names();
    await names.next();
    for (const answer of [new Error("SERVFAIL"), []]) {
      names.answer = answer;
      names.elapsedMs += 30_000;
      names.addresses.refresh();
      assert.equal((await names.next()).length, 2);
    }
    names.answer = [THREE];
    names.elapsedMs += 30_000;
    names.addresses.refresh();
    assert.equal(await names.next(), "3");
    assert.equal(names.asked, 4);
  });

  it("keeps those of a family whose half of the lookup fails, and loses them if it has none", async () => {
    const names = new Names();
    names.answer = [ONE, SIX];
    await names.next();
    const [both, half] = [names.answer, [ONE]];
    const asks = (answer: readonly LookupAddress[], ofFamily = "ENOTFOUND") => {
      Object.assign(names, { answer, ofFamily });
      names.elapsedMs += 30_000;
      names.addresses.refresh();
    };
    for (let i = 0; i < 3; i++) asks(half, "EAI_AGAIN");
    assert.equal((await names.next()).length, 2);
    asks(both);
    assert.equal(names.addresses.isRetired(SIX.address), false);
    asks(half);
    assert.equal(await names.next(), "1");
    assert.equal(names.addresses.isRetired(SIX.address), false, "one answer is too few");
    asks(half);
    assert.equal(names.addresses.isRetired(SIX.address), true);
    const { asked } = names;
    asks(half, "EAI_AGAIN");
    assert.equal(names.asked, asked + 1, "a family that it has no address of is not asked for");
  });

  it("keeps connections to itself if it leads to 0.0.0.0 or ::", async () => {
    const names = new Names();
    await names.next();
    for (const address of ["0.0.0.0", "::"]) {
      for (const answer of [[THREE], [THREE], [{ address, family: address === "::" ? 6 : 4 }]]) {
        names.answer = answer;
        names.elapsedMs += 30_000;
        names.addresses.refresh();
      }
      assert.equal(names.addresses.isRetired("127.0.0.1"), address === "::");
      assert.equal(names.addresses.isRetired("::1"), address !== "::");
    }
  });

  it("fails the connection where none was ever known, and is asked for the next one", async () => {
    const names = new Names();
    names.answer = new Error("ENOTFOUND");
    assert.equal(await names.next(), "ENOTFOUND");
    names.answer = [ONE];
    assert.equal(await names.next(), "1");
    names.elapsedMs = 90_000;
    assert.equal(names.asked, 2);
  });

  it("spreads real connections over real addresses, and passes over one that nobody listens at", async () => {
    // A busy machine takes longer than Node waits for one address before it tries the next.
    const usualMs = getDefaultAutoSelectFamilyAttemptTimeout();
    onTestFinished(() => setDefaultAutoSelectFamilyAttemptTimeout(usualMs));
    setDefaultAutoSelectFamilyAttemptTimeout(60_000);
    const names = new Names();
    names.answer = [ONE, TWO, THREE];
    const seen: (string | undefined)[] = [];
    const server = createServer((socket) => {
      seen.push(socket.localAddress);
      socket.on("error", () => {}).resume();
    });
    const other = createServer((socket) => {
      seen.push(socket.localAddress);
      socket.on("error", () => {}).resume();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise<void>((resolve) => other.listen(port, "127.0.0.2", resolve));
    const events = {
      onConnect: () => {},
      onRead: () => {},
      onDrain: () => {},
      onEnd: () => {},
      onClose: () => {},
    };
    const { lookup } = names.addresses;
    const sockets = [];
    for (let i = 1; i <= 6; i++) {
      sockets.push(openSocket({ host: "pets.test", port, tls: undefined, lookup }, events));
      await eventually(() => assert.equal(seen.length, i));
    }
    const [one, two] = ["127.0.0.1", "127.0.0.2"];
    assert.deepEqual(seen, [one, two, one, one, two, one], "the third falls back to the first");
    for (const socket of sockets) socket.destroy();
    await Promise.all([server, other].map((each) => new Promise((done) => each.close(done))));
  });
});
