/** The life of an operation as the description declares it. Instants are Unix milliseconds. */
export type Lifecycle = {
  readonly deprecated: boolean;
  readonly deprecatedMs?: number;
  readonly sunsetMs?: number;
  /** A URI reference, from `x-successor`. */
  readonly successor?: string;
  readonly stability?: "experimental" | "beta";
};

/**
 * The fields that announce an operation's end, as a flat list of names and values
 * (docs/reference/http.md#deprecation). Deprecation is a structured Date (RFC 9745 2.1), Sunset an
 * IMF-fixdate (RFC 8594 3), Link names the successor (RFC 5829 3.6). They go out with every
 * response of the operation, refusals included.
 */
export function lifecycleFields(lifecycle: Lifecycle): string[] {
  const { deprecated, deprecatedMs, sunsetMs, successor, stability } = lifecycle;
  const fields: string[] = [];
  if (deprecated && deprecatedMs !== undefined) {
    fields.push("Deprecation", `@${Math.floor(deprecatedMs / 1000)}`);
  }
  if (deprecated && sunsetMs !== undefined) fields.push("Sunset", new Date(sunsetMs).toUTCString());
  if (deprecated && successor !== undefined) {
    fields.push("Link", `<${successor}>; rel="successor-version"`);
  }
  if (stability !== undefined) fields.push("X-API-Stability", stability);
  return fields;
}
