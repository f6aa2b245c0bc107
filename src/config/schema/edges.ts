import { z } from "zod";
import { METHODS } from "../../core/http/route.ts";
import { NO_PORT, parseOrigin } from "./addresses.ts";
import * as kind from "./value-types.ts";
import { optional, required } from "./value-types.ts";

/** The keys of an environment for its two edges: toward clients and toward backends. */

const FIELD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
const fieldNames = z
  .array(kind.text("the name of a header field", FIELD), "a list of header field names")
  .max(100, "a list of at most 100 header field names");

const PAGE_ORIGIN = '"*", or an origin such as https://app.example.com';
const pageOrigin = z
  .string(PAGE_ORIGIN)
  .meta({ pattern: "^(?:\\*|[A-Za-z][A-Za-z0-9+.-]*://[^/?#\\\\\\s]+)$" })
  .transform((text, context) => {
    if (text === "*") return text;
    const read = /^https?:/i.test(text) ? parseOrigin(text) : customOrigin(text);
    if ("value" in read) return read.value;
    const hint = read.why === NO_PORT ? NO_PORT : undefined;
    context.issues.push({ code: "custom", message: PAGE_ORIGIN, input: text, params: { hint } });
    return z.NEVER;
  })
  .meta({ title: PAGE_ORIGIN });

/** Origins of apps, such as capacitor://localhost, and of browser extensions. */
function customOrigin(text: string) {
  const isOrigin = /^[a-z][a-z0-9+.-]*:\/\/[A-Za-z0-9._~-]+(?::\d{1,5})?$/.test(text);
  return isOrigin ? { value: text } : { why: "" };
}

export const cors = z.strictObject(
  {
    origins: required(
      z
        .array(pageOrigin, "a list of origins")
        .min(1, "a list of at least one origin")
        .max(1_000, "a list of at most 1000 origins"),
      'The origins whose pages may call, exactly as browsers write them; `"*"`: any.',
    ),
    methods: optional(
      z
        .array(kind.oneOf(METHODS), "a list of methods")
        .min(1, "a list of at least one method")
        .max(METHODS.length, `a list of at most ${METHODS.length} methods`),
      METHODS.filter((method) => method !== "OPTIONS"),
      "Methods that pages may use.",
    ),
    headers: optional(
      fieldNames,
      ["Authorization", "Content-Type", "X-Request-Id"],
      "Request fields that pages may set, besides those that need no leave.",
    ),
    expose: optional(
      fieldNames,
      [],
      "Fields of the backend that pages may read, besides those of the gateway.",
    ),
    credentials: optional(
      kind.boolean,
      false,
      'Whether browsers may add cookies; never with origins `"*"`. Keys need none.',
    ),
    maxAge: optional(
      kind.duration({ from: "0s", to: "24h" }),
      "10m",
      "For how long browsers may remember the answer to a preflight.",
    ),
  },
  "a map that says which pages may call",
);

export const tls = z.strictObject(
  {
    cert: required(kind.file, "The certificate and its chain, PEM."),
    key: required(kind.file, "Its private key, PEM, without a passphrase."),
  },
  "a map with cert and key",
);

export const upstreamTls = z.strictObject(
  {
    ca: kind.file.optional().meta({
      description:
        "Certificates of the authorities to trust, PEM, in place of the system's. Read at start and at a reload.",
    }),
    serverName: kind
      .text(
        "a host name without port",
        /^(?!\d+(?:\.\d+){3}$)[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$/,
      )
      .optional()
      .meta({
        description:
          "The name to ask for (SNI) and to find in the certificate, in place of the upstream's host.",
      }),
    cert: kind.file.optional().meta({
      description:
        "The certificate of the gateway, and its chain, for upstreams that ask for one in the handshake, PEM. One that asks after it in TLS 1.3, as Apache does with `SSLVerifyClient` for a path, gets none. Needs `key`. Read at start and at a reload.",
    }),
    key: kind.file.optional().meta({
      description: "The private key of `cert`, PEM, without a passphrase.",
    }),
  },
  "a map with ca, serverName, or cert and key",
);

export const healthCheck = z.strictObject(
  {
    path: required(
      kind.text(
        "a path that starts with /, without spaces or #",
        /^\/[\x21\x22\x24-\x7e]{0,1023}$/,
      ),
      "Asked of each upstream with GET; 2xx within `connectTimeout` is well.",
    ),
    every: optional(
      kind.duration({ from: "100ms", to: "1h" }),
      "5s",
      "From one answer to the next question.",
    ),
  },
  "a map with path and every",
);
