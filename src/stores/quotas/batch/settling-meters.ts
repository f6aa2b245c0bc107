import { type AccountRef, accountId } from "../account-ref.ts";
import type { WindowTotal } from "../count-corrections.ts";

type CountedWindow = Pick<WindowTotal, "counter" | "startMs">;

/** The settlements of an account that are under way. */
export type Settling = {
  count: number;
  /** The units that they add to windows of meters, by `windowKey`; below 0 they are taken back. */
  readonly units: Map<string, number>;
};

/** Units that are added to windows of meters of an account, or taken back. */
type Settlement = {
  readonly accountRef: AccountRef;
  readonly windows: readonly (CountedWindow & { readonly units: number })[];
};

/** The name of one window of a counter. */
export function windowKey({ counter, startMs }: CountedWindow): string {
  return `${counter} ${startMs}`;
}

/**
 * The accounts whose meters are being settled: their known counts may be too high or too low. Each
 * known refusal looks here, however many settlements there are, so it finds their sum.
 */
export class SettlingMeters {
  readonly #accounts = new Map<string, Settling>();

  /** Undefined, as nearly always, if none is under way. */
  of(id: string): Settling | undefined {
    return this.#accounts.get(id);
  }

  /** Called when a call is sent that settles meters of these accounts. Returns what ends it. */
  begin(settled: readonly Settlement[]): () => void {
    this.#add(settled, 1);
    return () => this.#add(settled, -1);
  }

  #add(settled: readonly Settlement[], sign: 1 | -1): void {
    for (const { accountRef, windows } of settled) {
      const id = accountId(accountRef);
      const settling = this.#accounts.get(id) ?? { count: 0, units: new Map<string, number>() };
      settling.count += sign;
      for (const one of windows) {
        const key = windowKey(one);
        const units = (settling.units.get(key) ?? 0) + sign * one.units;
        if (units === 0) settling.units.delete(key);
        else settling.units.set(key, units);
      }
      if (settling.count > 0) this.#accounts.set(id, settling);
      else this.#accounts.delete(id);
    }
  }
}
