/**
 * Counts the requests of each account in progress in this process, from the decision to the end of
 * their responses (docs/reference/plans.md#concurrency). The counts are kept only here: a process
 * that is killed leaves nothing behind, and the limit over all processes is the sum of theirs.
 */
export class ConcurrencyLimiter {
  readonly #underWay = new Map<string, number>();

  /** Counts a request in. Returns false if the account has `max` already. Release each once. */
  acquire(account: string, max: number): boolean {
    const underWay = this.#underWay.get(account) ?? 0;
    if (underWay >= max) return false;
    this.#underWay.set(account, underWay + 1);
    return true;
  }

  release(account: string): void {
    const left = (this.#underWay.get(account) as number) - 1;
    if (left === 0) this.#underWay.delete(account);
    else this.#underWay.set(account, left);
  }
}
