/**
 * Limits calls of `read` to one in `everyMs`. Callers in between, or while a read is in progress,
 * get the same result. After a failure the next caller starts a new read.
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
