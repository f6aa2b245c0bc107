import { type LookupAddress, lookup } from "node:dns";
import type { LookupFunction } from "node:net";

/** Resolves all addresses of a name, or those of one family; 0 stands for both. */
export type AskAddresses = (
  host: string,
  family: 0 | 4 | 6,
  onAnswer: (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void,
) => void;

const ASK_AGAIN_MS = 30_000;

const askSystem: AskAddresses = (host, family, onAnswer) => {
  lookup(host, { all: true, family }, onAnswer);
};

/**
 * The addresses of a host name (docs/reference/edge.md#backends). New connections use them in turn.
 * The name is resolved again every 30 s; while the resolver fails, the last known addresses are
 * used. An address that two answers in a row lack is retired: one is not enough, because a resolver
 * may answer with some of the addresses in turn.
 */
export class HostAddresses {
  readonly #host: string;
  readonly #elapsed: () => number;
  readonly #ask: AskAddresses;
  #known: readonly LookupAddress[] = [];
  #knownBefore: readonly LookupAddress[] = [];
  /** The addresses of the last two answers. Undefined as long as no address was ever retired. */
  #kept: ReadonlySet<string> | undefined;
  #askedMs = 0;
  #waiting: ((error: NodeJS.ErrnoException | null) => void)[] = [];
  #isAsking = false;
  #turn = 0;

  /** `elapsed` is the monotonic clock, in milliseconds. */
  constructor(host: string, elapsed: () => number, ask: AskAddresses = askSystem) {
    this.#host = host;
    this.#elapsed = elapsed;
    this.#ask = ask;
  }

  /** The lookup of node:net: the next address in turn, followed by the others if `all`. */
  readonly lookup: LookupFunction = (_host, { all }, done) => {
    const answer = () => {
      const count = this.#known.length;
      const first = this.#turn % count;
      this.#turn = first + 1;
      const addresses = [...this.#known.slice(first), ...this.#known.slice(0, first)];
      const [{ address, family }] = addresses as [LookupAddress];
      if (all) done(null, addresses);
      else done(null, address, family);
    };
    if (this.#known.length > 0) {
      queueMicrotask(answer);
      return;
    }
    this.#waiting.push((error) => {
      if (error === null) answer();
      else done(error, []);
    });
    this.#askNow();
  };

  /** Resolves the name again when that is due. Called a few times a second. */
  refresh(): void {
    if (this.#known.length > 0 && this.#elapsed() - this.#askedMs >= ASK_AGAIN_MS) this.#askNow();
  }

  /** Whether there may be connections to an address that is retired. */
  get hasRetired(): boolean {
    return this.#kept !== undefined;
  }

  /** Whether an address that the name led to is retired. */
  isRetired(address: string): boolean {
    return this.#kept?.has(address) === false;
  }

  #askNow(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    this.#askedMs = this.#elapsed();
    this.#ask(this.#host, 0, (error, addresses) => {
      if (error !== null || addresses.length === 0) return this.#onAnswer(error, []);
      const lost = this.#known.find(
        ({ family }) => !addresses.some((one) => one.family === family),
      );
      if (lost === undefined) return this.#onAnswer(null, addresses);
      this.#askFamily(lost.family, (found) => this.#onAnswer(null, [...addresses, ...found]));
    });
  }

  /**
   * Asks for a family that an answer lacks. The resolver of glibc answers with the other family if
   * half of a lookup fails, and says nothing about the failure.
   */
  #askFamily(family: number, onFound: (addresses: readonly LookupAddress[]) => void): void {
    this.#ask(this.#host, family === 6 ? 6 : 4, (error, addresses) => {
      if (error === null) onFound(addresses);
      else if (error.code === "ENOTFOUND") onFound([]);
      else onFound(this.#known.filter((one) => one.family === family));
    });
  }

  #onAnswer(error: Error | null, addresses: readonly LookupAddress[]): void {
    this.#isAsking = false;
    if (addresses.length > 0) this.#learn(addresses);
    const failure = this.#known.length > 0 ? null : (error ?? new Error("no address"));
    for (const tell of this.#waiting.splice(0)) tell(failure);
  }

  #learn(addresses: readonly LookupAddress[]): void {
    const kept = new Set([...this.#known, ...addresses].map(connectedAs));
    const retires = this.#knownBefore.some((one) => !kept.has(connectedAs(one)));
    if (retires || this.hasRetired) this.#kept = kept;
    this.#knownBefore = this.#known;
    this.#known = addresses;
  }
}

/** The address that a connection shows. The system connects to itself for these two. */
function connectedAs({ address }: LookupAddress): string {
  if (address === "0.0.0.0") return "127.0.0.1";
  return address === "::" ? "::1" : address;
}
