const SHOWN_MAX = 100;

/**
 * Quotes a value from outside for a message. JSON keeps it from posing as the words of the message.
 * It is shortened to 100 characters, and a login in a URL is ***.
 */
export function quoteValue(value: unknown): string {
  if (typeof value !== "string") return cleanText(shorten(String(JSON.stringify(value))));
  const shown = shorten(value.replace(/^([a-z][a-z0-9+.-]*:\/\/).*@/is, "$1***@"));
  // JSON leaves DEL, the other control characters of Latin-1 and the marks that reverse text as they are.
  return cleanText(JSON.stringify(shown));
}

/** An address in quotes, with *** for all that may be a login: a password can hold any character. */
export function quoteAddress(value: string): string {
  return quoteValue(value.replace(/^([a-z][a-z+]*:\/\/)?.*@/is, "$1***@"));
}

function shorten(text: string): string {
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}

/** The origin of a URL that may have a token in its path or query. */
export function maskUrl(url: string): string {
  return `${new URL(url).origin}/***`;
}

/** Escapes characters that would move the cursor, colour the screen or reverse the text. */
export function cleanText(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    return `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`;
  });
}

/** The message alone: errors of libraries carry commands, addresses and passwords as members. */
export function errorMessage(error: unknown): string {
  if (error instanceof Error && "syscall" in error && error.syscall === "uv_cwd") {
    return "The working folder is not there any more: go to one that is";
  }
  return error instanceof Error ? error.message : "unknown";
}

/** The code of an error of the system, such as ENOENT; undefined for any other error. */
export function errorCode(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/** "1 key", "2 keys". */
export function formatCount(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}
