/** The methods that this gateway knows, in the order in which `Allow` lists them (RFC 9110 9.3). */
export const METHODS: readonly string[] = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
];

const KNOWN: ReadonlySet<string> = new Set(METHODS);

/** Case counts: `get` is another method than `GET` (RFC 9110 9.1). */
export function isMethod(method: string): boolean {
  return KNOWN.has(method);
}
