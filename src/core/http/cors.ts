/** Which pages of other origins may call an environment, and how (the Fetch standard, 3.2). */
export type CorsPolicy = {
  /** Origins as browsers write them; `"*"` alone means any. */
  readonly origins: readonly string[];
  readonly methods: readonly string[];
  /** Request fields that pages may set. */
  readonly headers: readonly string[];
  /** Response fields that pages may read, besides those of the gateway. */
  readonly expose: readonly string[];
  readonly credentials: boolean;
  readonly maxAgeSeconds: number;
};

/** The backend's fields that are replaced when the gateway handles CORS. */
export const CORS_FIELDS: ReadonlySet<string> = new Set([
  "access-control-allow-origin",
  "access-control-allow-credentials",
  "access-control-allow-headers",
  "access-control-allow-methods",
  "access-control-allow-private-network",
  "access-control-expose-headers",
  "access-control-max-age",
]);

type PreflightRequest = {
  readonly method: string;
  readonly names: readonly string[];
};

/** Whether this is a preflight: a browser asks if a page may send a request that needs CORS. */
export function isPreflight({ method, names }: PreflightRequest): boolean {
  return (
    method === "OPTIONS" &&
    names.includes("origin") &&
    names.includes("access-control-request-method")
  );
}

/**
 * The CORS fields of any response, refusals included, as a flat list: none for an origin that is
 * not allowed. `exposed` are the gateway's own fields that pages may read.
 */
export function corsFields(
  policy: CorsPolicy,
  origin: string | undefined,
  exposed: readonly string[],
): string[] {
  const allowed = allowedOrigin(policy, origin);
  if (allowed === undefined) return [];
  const fields = ["Access-Control-Allow-Origin", allowed];
  if (policy.credentials) fields.push("Access-Control-Allow-Credentials", "true");
  fields.push("Access-Control-Expose-Headers", [...exposed, ...policy.expose].join(", "));
  return fields;
}

/** The further fields of the response to a preflight; none for an origin that is not allowed. */
export function preflightFields(policy: CorsPolicy, origin: string | undefined): string[] {
  if (allowedOrigin(policy, origin) === undefined) return [];
  return [
    "Access-Control-Allow-Methods",
    policy.methods.join(", "),
    "Access-Control-Allow-Headers",
    policy.headers.join(", "),
    "Access-Control-Max-Age",
    String(policy.maxAgeSeconds),
  ];
}

/**
 * Origins are compared byte for byte (Fetch standard). "null" matches no origin. `*` holds without
 * an origin too: a cache can keep that answer for a page.
 */
function allowedOrigin({ origins }: CorsPolicy, origin: string | undefined): string | undefined {
  if (origins.includes("*")) return "*";
  if (origin === undefined) return undefined;
  return origins.includes(origin) ? origin : undefined;
}

/**
 * Whether the answer depends on the origin. Then Vary says so, also to origins that get no CORS
 * field (Fetch, 3.2.5).
 */
export function dependsOnOrigin({ origins }: CorsPolicy): boolean {
  return !origins.includes("*");
}
