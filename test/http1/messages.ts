import fc from "fast-check";
import { smugglingVectors, upstreamVectors } from "../support/wire/vectors.ts";

const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}$/);
const value = fc.stringMatching(/^[\t\x20-\x7e\x80-\xff]{0,30}$/);
const line = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(token, value).map(([name, text]) => `${name}: ${text}`) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      "Content-Length: 5",
      "Content-Length: 0",
      "content-length:  3 ",
      "Transfer-Encoding: chunked",
      "Transfer-Encoding: Chunked ",
      "Connection: close",
      "Connection: keep-alive, TE",
      "Expect: 100-continue",
    ),
  },
);
const chunk = fc
  .tuple(fc.stringMatching(/^[a-z]{1,20}$/), fc.constantFrom("", ";a", ";a=b", ';a="b\\"c;"'))
  .map(([data, extension]) => `${data.length.toString(16)}${extension}\r\n${data}\r\n`);
const chunked = fc
  .tuple(fc.array(chunk, { maxLength: 4 }), fc.constantFrom("", "X-T: 1\r\n", "A: b\r\nC:\r\n"))
  .map(([chunks, trailers]) => `${chunks.join("")}0\r\n${trailers}\r\n`);
/** Fields and the body that they announce, mostly; else a body that they do not. */
const rest = fc.oneof(
  fc.array(line, { maxLength: 4 }).map((lines) => ({ lines, body: "" })),
  fc.stringMatching(/^[a-z]{0,40}$/).map((body) => {
    return { lines: [`Content-Length: ${body.length}`], body };
  }),
  chunked.map((body) => ({ lines: ["Host: a", "Transfer-Encoding: chunked"], body })),
  fc.tuple(fc.array(line, { maxLength: 3 }), chunked).map(([lines, body]) => ({ lines, body })),
);
const request = fc
  .tuple(
    fc.constantFrom("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"),
    fc.constantFrom("/", "/v1/pets?a=b", "*", "http://a/b"),
    fc.constantFrom("1.1", "1.1", "1.1", "1.0"),
    rest,
  )
  .map(([method, target, version, { lines, body }]) => {
    const fields = lines.map((text) => `${text}\r\n`).join("");
    return `${method} ${target} HTTP/${version}\r\n${fields}\r\n${body}`;
  });
const response = fc
  .tuple(
    fc.constantFrom("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 102\r\n\r\n"),
    fc.constantFrom("1.1", "1.1", "1.0"),
    fc.constantFrom("200 OK", "204 No Content", "304 Not Modified", "404", "500 ", "201 \xe9"),
    rest,
  )
  .map(([interim, version, status, { lines, body }]) => {
    const fields = lines.map((text) => `${text}\r\n`).join("");
    return `${interim}HTTP/${version} ${status}\r\n${fields}\r\n${body}`;
  });

/** Pieces that break messages: bytes that end lines for some, names of fields, numbers. */
const odd = fc.constantFrom(
  ...["\r", "\n", "\r\n", "\r\n\r\n", "\0", "\t", " ", "\x0b", "\x7f", "\x80", "\xa0", "\xff", ":"],
  ...[";", ",", '"', "0", "1", "f", "x", "+5", "-", "0x5", "=", "0\r\n\r\n", " HTTP/1.1", "\r\n "],
  ...[
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: \x0bchunked\r\n",
  ],
  ...["Transfer-Encoding:\tchunked\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"],
);
type Change = { readonly at: number; readonly cut: number; readonly put: string };
const change: fc.Arbitrary<Change> = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  cut: fc.constantFrom(0, 0, 1, 2, 5),
  put: fc.oneof(odd, fc.constant("")),
});

function changed(text: string, changes: readonly Change[]): Buffer {
  let result = text;
  for (const { at, cut, put } of changes) {
    const place = Math.floor(at * result.length);
    result = result.slice(0, place) + put + result.slice(place + cut);
  }
  return Buffer.from(result, "latin1");
}

const SHORT_MAX = 3_000;

/** Short vectors, and messages made up of the words above, in a row. */
function bytesOf(
  made: fc.Arbitrary<string>,
  vectors: readonly { readonly bytes: Buffer }[],
): fc.Arbitrary<Buffer> {
  const short = vectors.filter(({ bytes }) => bytes.length <= SHORT_MAX);
  const known = fc.constantFrom(...short.map(({ bytes }) => bytes.toString("latin1")));
  const one = fc.oneof({ weight: 3, arbitrary: made }, { weight: 1, arbitrary: known });
  return fc
    .tuple(fc.array(one, { minLength: 1, maxLength: 3 }), fc.array(change, { maxLength: 3 }))
    .map(([messages, changes]) => changed(messages.join(""), changes));
}

/** One to three requests in a row, whole or broken in up to three places. */
export const requestBytes = bytesOf(request, smugglingVectors());
/** One to three responses in a row, likewise. */
export const responseBytes = bytesOf(response, upstreamVectors());
