type Lost = { readonly chargesLost: number; readonly historyLost: number };

/** Names lost units as those of a failover, up to `mostLost`. */
export function excuseFailover<T extends Lost>(
  charges: T,
  mostLost: number,
): T & { readonly failoverLost: number } {
  const { chargesLost, historyLost } = charges;
  return {
    ...charges,
    failoverLost: Math.min(mostLost, Math.max(chargesLost, historyLost)),
    chargesLost: Math.max(0, chargesLost - mostLost),
    historyLost: Math.max(0, historyLost - mostLost),
  };
}
