import type { LogLine } from "../trial/processes.ts";

/** Units that gateways report in their logs as possibly charged twice. */
export class UncertainCharges {
  readonly #byAccount = new Map<string, number>();
  #units = 0;

  /** The units of all accounts. */
  get units(): number {
    return this.#units;
  }

  of(account: string): number {
    return this.#byAccount.get(account) ?? 0;
  }

  /** Called with each line of a gateway. It names accounts as `proof:a_… 3, proof:a_… 1`. */
  onLogLine({ msg, accounts }: LogLine): void {
    if (msg !== "charges_uncertain") return;
    for (const [, account = "", units] of String(accounts).matchAll(/proof:([^\s#]+) (\d+)/g)) {
      this.#units += Number(units);
      this.#byAccount.set(account, this.of(account) + Number(units));
    }
  }
}
