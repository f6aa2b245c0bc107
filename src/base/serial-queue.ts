/** Runs one task after the other, so that an old read never replaces a newer change. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }

  /** Resolves when all tasks that were started have ended, successfully or not. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
