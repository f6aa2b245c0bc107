import { accept, type Result, refuse } from "../refusal.ts";
import { type ForeignKeyFormat, matchesForeignFormat } from "./key.ts";

const BEARER = /^bearer +([\x21-\x7e]+)$/i;
const TOKEN68 = /^[A-Za-z0-9\-._~+/]+=*$/;
const TOKEN_LENGTH_MIN = 16;
const TOKEN_LENGTH_MAX = 512;

/**
 * Parses the token of one Authorization field: RFC 6750 2.1, scheme in any case, 16 to 512 characters
 * of token68 or of a configured foreign format, whose prefix may have others. Nothing else is
 * hashed, looked up or logged (docs/reference/http.md#authentication).
 */
export function parseBearer(
  authorization: string | undefined,
  foreignKeys: readonly ForeignKeyFormat[] = [],
): Result<string> {
  // No credentials are a missing key. Any other fault is an invalid key.
  if (authorization === undefined || authorization === "") return refuse("key_missing");
  if (authorization.length > TOKEN_LENGTH_MAX + 16) return refuse("key_invalid", "too long");
  const token = BEARER.exec(authorization)?.[1] ?? "";
  const isToken = TOKEN68.test(token) || matchesForeignFormat(token, foreignKeys);
  if (!isToken || token.length < TOKEN_LENGTH_MIN || token.length > TOKEN_LENGTH_MAX) {
    return refuse("key_invalid", "malformed credentials");
  }
  return accept(token);
}

/** A key in a field of its own has no scheme: visible ASCII, with the length of a bearer token. */
const BARE = /^[\x21-\x7e]{16,512}$/;
const AUTHORIZATION = "authorization";

/** Whether some field of a request can carry a token. */
export function canBeSent(token: string): boolean {
  return BARE.test(token);
}

/** The fields of a request as a flat list in their order, and their names in lower case. */
export type CredentialFields = {
  readonly names: readonly string[];
  readonly rawHeaders: readonly string[];
  readonly authorization: string | undefined;
};

/**
 * Finds the one token among the fields that may carry a key
 * (docs/reference/http.md#authentication). An empty field does not count. Two tokens are refused,
 * even if they are equal. `keyHeaders` are lower case.
 */
export function findCredential(
  head: CredentialFields,
  {
    keyHeaders,
    foreignKeys,
  }: { readonly keyHeaders: readonly string[]; readonly foreignKeys: readonly ForeignKeyFormat[] },
): Result<string> {
  if (keyHeaders.length === 1 && keyHeaders[0] === AUTHORIZATION) {
    return parseBearer(head.authorization, foreignKeys);
  }
  const { names, rawHeaders } = head;
  let found: { readonly name: string; readonly value: string } | undefined;
  for (const [i, name] of names.entries()) {
    const value = rawHeaders[2 * i + 1] as string;
    if (value === "" || !keyHeaders.includes(name)) continue;
    if (found !== undefined) return refuse("key_invalid", "credentials in two fields");
    found = { name, value };
  }
  if (found === undefined) return refuse("key_missing");
  if (found.name === AUTHORIZATION) return parseBearer(found.value, foreignKeys);
  return BARE.test(found.value)
    ? accept(found.value)
    : refuse("key_invalid", "malformed credentials");
}
