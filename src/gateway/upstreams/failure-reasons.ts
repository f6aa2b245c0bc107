import type { ResponseError } from "../../http1/client/response-parser.ts";

/** The words of the log for failures without a code of the system or of TLS. */
export const FAILURE_REASONS: Readonly<Record<ResponseError | "closed" | "timeout", string>> = {
  line: "the first line is no status line of HTTP",
  version: "the version is neither HTTP/1.0 nor HTTP/1.1",
  field: "a field line of the head is malformed",
  line_overflow: "the head is over 64 KiB",
  head_overflow: "the head is over 64 KiB",
  length: "Content-Length comes twice or is no number",
  length_and_coding: "there are both Content-Length and Transfer-Encoding",
  coding_on_1_0: "there is Transfer-Encoding on HTTP/1.0",
  coding: "Transfer-Encoding is not one chunked",
  unasked: "a 100 or 101 that was not asked for",
  chunk: "a chunk is malformed",
  extension_overflow: "the extensions of a chunk are over 16 KiB",
  trailer: "a trailer field is malformed, or is Content-Length or Transfer-Encoding",
  trailer_overflow: "the trailer fields are over 64 KiB",
  closed: "the backend closed the connection",
  timeout: "no connection within connectTimeout",
};

/** The reason of a failure for the log. A code of the system or of TLS stays as it is. */
export function describeFailure(why: string): string {
  return (FAILURE_REASONS as Readonly<Record<string, string>>)[why] ?? why;
}
