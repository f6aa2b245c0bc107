/**
 * Whether a Node version ("v26.10.0") is in a range such as package.json's `engines.node`: `||` of
 * blank-separated `>=` and `<` with full or partial versions; no other semver syntax is needed.
 * Imports nothing, because it runs before any module that an old Node could not load.
 */
export function satisfiesEngines(version: string, range: string): boolean {
  const running = numbers(version);
  return range.split("||").some((alternative) =>
    alternative
      .trim()
      .split(/\s+/)
      .every((bound) => {
        const least = bound.startsWith(">=");
        if (!least && !bound.startsWith("<")) throw new RangeError(`Cannot read ${bound}`);
        const order = compare(running, numbers(bound.slice(least ? 2 : 1)));
        return least ? order >= 0 : order < 0;
      }),
  );
}

function numbers(version: string): readonly number[] {
  const parts = version
    .replace(/^v/, "")
    .replace(/[-+].*$/, "")
    .split(".")
    .map(Number);
  return [parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0];
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < 3; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
