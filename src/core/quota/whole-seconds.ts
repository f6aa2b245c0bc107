/**
 * An instant in Unix seconds, rounded up, as X-RateLimit-Reset is: waiting until then is always
 * enough (docs/reference/http.md#rate-limit-fields).
 */
export function roundUpToSeconds(instantMs: number): number {
  return Math.ceil(instantMs / 1000);
}
