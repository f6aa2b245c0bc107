/**
 * Makes `read` be called at most once in `everyMs`, however many ask: those who ask in between, or
 * while it is under way, get what it gave. After a failure the next one asks again.
 */
export function atMostEvery<T>(everyMs: number, read: () => Promise<T>): () => Promise<T> {
  let last: Promise<T> | undefined;
  let askedMs = 0;
  return () => {
    const nowMs = performance.now();
    if (last !== undefined && nowMs - askedMs < everyMs) return last;
    askedMs = nowMs;
    const given = read();
    given.catch(() => {
      if (last === given) last = undefined;
    });
    last = given;
    return given;
  };
}
