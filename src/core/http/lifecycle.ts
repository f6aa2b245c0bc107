/** The lifecycle of an operation as the description declares it. Instants are Unix milliseconds. */
export type Lifecycle = {
  readonly deprecated: boolean;
  readonly deprecatedMs?: number;
  readonly sunsetMs?: number;
  /** A URI reference, from `x-successor`. */
  readonly successor?: string;
  readonly stability?: "experimental" | "beta";
  /** Periods in which it responds as if it had been removed. No two of them overlap or touch. */
  readonly brownouts?: readonly Brownout[];
};

/** A period that ends just before `toMs`. */
export type Brownout = { readonly fromMs: number; readonly toMs: number };

/** The value of Deprecation, a structured Date (RFC 9745 2.1). Without a date there is no field. */
export function deprecationValue({ deprecated, deprecatedMs }: Lifecycle): string | undefined {
  if (!deprecated || deprecatedMs === undefined) return undefined;
  return `@${Math.floor(deprecatedMs / 1000)}`;
}

/** The value of Sunset, an IMF-fixdate (RFC 8594 3). */
export function sunsetValue({ deprecated, sunsetMs }: Lifecycle): string | undefined {
  return deprecated && sunsetMs !== undefined ? new Date(sunsetMs).toUTCString() : undefined;
}

/** The Link that names the successor of a deprecated operation (RFC 5829 3.6). */
export function successorLink({ deprecated, successor }: Lifecycle): string | undefined {
  return deprecated && successor !== undefined
    ? `<${successor}>; rel="successor-version"`
    : undefined;
}
