/** One piece of work after the other: an old reading never replaces a newer change. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }

  /** When all that was begun has ended, however it did. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
