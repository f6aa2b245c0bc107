import { type LookupAddress, lookup } from "node:dns";
import type { LookupFunction } from "node:net";

/** Resolves all addresses of a name. */
export type AskAddresses = (
  host: string,
  onAnswer: (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void,
) => void;

const ASK_AGAIN_MS = 30_000;

const askSystem: AskAddresses = (host, onAnswer) => lookup(host, { all: true }, onAnswer);

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
    this.#ask(this.#host, (error, addresses) => {
      this.#isAsking = false;
      if (error === null && addresses.length > 0) this.#learn(addresses);
      const failure = this.#known.length > 0 ? null : (error ?? new Error("no address"));
      for (const tell of this.#waiting.splice(0)) tell(failure);
    });
  }

  #learn(addresses: readonly LookupAddress[]): void {
    const kept = new Set([...this.#known, ...addresses].map(({ address }) => address));
    const retires = this.#knownBefore.some(({ address }) => !kept.has(address));
    if (retires || this.hasRetired) this.#kept = kept;
    this.#knownBefore = this.#known;
    this.#known = addresses;
  }
}
