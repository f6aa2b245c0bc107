import { setTimeout as sleep } from "node:timers/promises";

/**
 * Tries a claim until it holds, and gives what it returned. A claim fails by throwing (an
 * assertion) or by returning false. After `withinMs` the last failure is thrown: a deadline that is
 * generous on a busy machine costs nothing where the claim holds at once.
 */
export async function eventually<T>(
  claim: () => T | Promise<T>,
  { withinMs = 60_000, everyMs = 10 }: { withinMs?: number; everyMs?: number } = {},
): Promise<T> {
  const endMs = performance.now() + withinMs;
  for (;;) {
    let failure: unknown;
    try {
      const value = await claim();
      if (value !== false) return value;
      failure = new Error("The claim is still false");
    } catch (error) {
      failure = error;
    }
    if (performance.now() >= endMs) {
      const why = failure instanceof Error ? failure.message : String(failure);
      throw new Error(`Not so within ${withinMs} ms: ${why}`, { cause: failure });
    }
    await sleep(everyMs);
  }
}
