/** The reason why a file, or a line of one, is refused that has other bytes. */
export const NOT_UTF8 = "it is not UTF-8; save it as UTF-8";

/** The text without its byte order mark; undefined if the bytes are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
