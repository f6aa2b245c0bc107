import { KEY } from "../support/gateway/served.ts";
import { smugglingVectors } from "../support/wire/vectors.ts";
import { type Dice, diceOf } from "./random.ts";

/** The bytes of one case: pieces, each its own write, and whether our side is ended behind them. */
export type Case = {
  readonly number: number;
  readonly pieces: readonly Buffer[];
  readonly halfClose: boolean;
};

const HEAD = `Host: gw.test\r\nAuthorization: Bearer ${KEY}\r\n`;
const JSON_TYPE = "Content-Type: application/json\r\n";

/** Requests that pass as they are: what is spliced from them gets far. */
const GOOD: readonly string[] = [
  `GET /v1/pets HTTP/1.1\r\n${HEAD}\r\n`,
  `HEAD /v1/pets/7?a=b HTTP/1.1\r\n${HEAD}\r\n`,
  `POST /v1/pets HTTP/1.1\r\n${HEAD}${JSON_TYPE}Content-Length: 11\r\n\r\n{"name":"a"}`.slice(
    0,
    -1,
  ),
  `POST /v1/pets HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
  `GET /v1/pets HTTP/1.1\r\n${HEAD}\r\nGET /v1/pets/1 HTTP/1.1\r\n${HEAD}\r\n`,
  `POST /v1/pets HTTP/1.1\r\n${HEAD}Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc`,
  `GET /v1/pets HTTP/1.1\r\n${HEAD}Connection: Upgrade\r\nUpgrade: websocket\r\n` +
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  `GET http://gw.test/v1/pets HTTP/1.1\r\n${HEAD}\r\n`,
  `OPTIONS /v1/pets HTTP/1.0\r\n${HEAD}Connection: keep-alive\r\n\r\n`,
];

/** Bytes that parsers disagree about. */
const WORDS: readonly string[] = [
  ..."\r|\n|\r\n|\0| |\t|\v|:|;|,|=|\x7f|\x80|\xff|%|%2e|..|/|\\|?|#|_|-".split("|"),
  ...["Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\n", "Content-Length: 0\r\n"],
  ...[
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding: chunked, gzip\r\n",
    "TE: trailers\r\n",
  ],
  ...["Connection: close\r\n", "Connection: X-Consumer-Id, Via, Host\r\n", "Host: evil.test\r\n"],
  ...["X_Forwarded_For: 1.2.3.4\r\n", "X-Consumer-Id: admin\r\n", "Expect: 100-continue\r\n"],
  ...["Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n", " folded\r\n", "__proto__: 1\r\n"],
  ...["0\r\n\r\n", "5\r\nhello\r\n", "5;a=b\r\nhello\r\n", "ffffffffffffffff\r\n", "HTTP/1.1\r\n"],
  `\r\n\r\nGET /v1/smuggled HTTP/1.1\r\n${HEAD}\r\n`,
];

const VECTORS = smugglingVectors().map(({ bytes }) => bytes);
const PASSING = GOOD.map((text) => Buffer.from(text, "latin1"));

/** Half of them good: most vectors are refused as they are, and a change rarely makes them pass. */
function seedOf(dice: Dice): Buffer {
  return dice.one(dice.chance(2) ? PASSING : VECTORS);
}

/** Sizes stay such that a case takes milliseconds: longer bodies have tests of their own. */
const BYTES_MAX = 40_000;

/** The case of a number: the same bytes for ever, for the same seed and vectors. */
export function caseOf(seed: number, number: number): Case {
  const dice = diceOf(seed, number);
  let bytes = seedOf(dice);
  for (let left = 1 + dice.below(3); left > 0; left--) bytes = dice.one(OPERATIONS)(bytes, dice);
  bytes = bytes.subarray(0, BYTES_MAX);
  const pieces = dice.chance(4) ? split(bytes, dice) : [bytes];
  return { number, pieces, halfClose: dice.chance(20) };
}

function split(bytes: Buffer, dice: Dice): Buffer[] {
  const at = dice.below(bytes.length + 1);
  return [bytes.subarray(0, at), bytes.subarray(at)].filter(({ length }) => length > 0);
}

type Operation = (bytes: Buffer, dice: Dice) => Buffer;

const OPERATIONS: readonly Operation[] = [
  function splice(bytes, dice) {
    const other = seedOf(dice);
    return Buffer.concat([
      bytes.subarray(0, place(bytes, dice)),
      other.subarray(place(other, dice)),
    ]);
  },
  function append(bytes, dice) {
    return Buffer.concat([bytes, seedOf(dice)]);
  },
  function insert(bytes, dice) {
    const at = place(bytes, dice);
    const word = Buffer.from(dice.one(WORDS), "latin1");
    return Buffer.concat([bytes.subarray(0, at), word, bytes.subarray(at)]);
  },
  function replace(bytes, dice) {
    const at = place(bytes, dice);
    const word = Buffer.from(dice.one(WORDS), "latin1");
    return Buffer.concat([bytes.subarray(0, at), word, bytes.subarray(at + word.length)]);
  },
  function changeCase(bytes, dice) {
    const copy = Buffer.from(bytes);
    const from = dice.below(copy.length);
    for (let i = from; i < Math.min(copy.length, from + 1 + dice.below(20)); i++) {
      if (/[A-Za-z]/.test(String.fromCharCode(copy[i] as number)))
        copy[i] = (copy[i] as number) ^ 32;
    }
    return copy;
  },
  function repeatLine(bytes, dice) {
    const lines = bytes.toString("latin1").split("\r\n");
    const at = dice.below(lines.length);
    const times = dice.chance(10) ? 120 : 1 + dice.below(3);
    lines.splice(at, 0, ...Array<string>(times).fill(lines[at] as string));
    return Buffer.from(lines.join("\r\n"), "latin1");
  },
  function swapLines(bytes, dice) {
    const lines = bytes.toString("latin1").split("\r\n");
    const [one, other] = [dice.below(lines.length), dice.below(lines.length)];
    [lines[one], lines[other]] = [lines[other] as string, lines[one] as string];
    return Buffer.from(lines.join("\r\n"), "latin1");
  },
  function repeatBytes(bytes, dice) {
    const from = place(bytes, dice);
    const slice = bytes.subarray(from, from + 1 + dice.below(24));
    const times = dice.chance(8) ? 1_000 : 1 + dice.below(8);
    const many = Array<Buffer>(times).fill(slice);
    return Buffer.concat([bytes.subarray(0, from), ...many, bytes.subarray(from)]);
  },
  function truncate(bytes, dice) {
    return bytes.subarray(0, place(bytes, dice));
  },
  function cut(bytes, dice) {
    const from = place(bytes, dice);
    const to = from + 1 + dice.below(12);
    return Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)]);
  },
  function changeDigit(bytes, dice) {
    const text = bytes.toString("latin1");
    const digits = [...text.matchAll(/\d+/g)];
    if (digits.length === 0) return bytes;
    const { 0: old, index } = dice.one(digits);
    const word = dice.one([
      "0",
      "1",
      "-1",
      "+1",
      "0x1",
      "00",
      "99999",
      "18446744073709551616",
      "1 1",
    ]);
    return Buffer.from(text.slice(0, index) + word + text.slice(index + old.length), "latin1");
  },
  function changeByte(bytes, dice) {
    const copy = Buffer.from(bytes);
    if (copy.length > 0) copy[dice.below(copy.length)] = dice.below(256);
    return copy;
  },
];

/** Half the time next to a delimiter, where the grammar is decided. */
function place(bytes: Buffer, dice: Dice): number {
  if (bytes.length === 0) return 0;
  const anywhere = dice.below(bytes.length);
  if (dice.chance(2)) return anywhere;
  for (let at = anywhere; at < bytes.length; at++) {
    if (DELIMITERS.has(bytes[at] as number)) return at + dice.below(2);
  }
  return anywhere;
}

const DELIMITERS = new Set(Buffer.from("\r\n: /,;="));
