import assert from "node:assert/strict";
import fc from "fast-check";
import { test } from "vitest";
import {
  closeFrame,
  Frames,
  switchError,
  validateHandshake,
  webSocketAccept,
} from "../../../src/core/http/websocket.ts";
import { parseFraming } from "../../../src/http1/parse/framing.ts";

/** The example of RFC 6455 1.3. */
const NONCE = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const GOOD = {
  Connection: "keep-alive, Upgrade",
  Upgrade: "WebSocket",
  "Sec-WebSocket-Version": "13",
  "Sec-WebSocket-Key": NONCE,
};

function headWith(changes: Readonly<Record<string, string>> = {}, method = "GET", version = "1.1") {
  const rawHeaders = Object.entries({ ...GOOD, ...changes })
    .filter(([, value]) => value !== "")
    .flat();
  const { framing = 0 } = parseFraming("1.1", rawHeaders);
  return { method, target: "/", version, rawHeaders, framing };
}

test("the accept is that of the example in RFC 6455 1.3", () => {
  assert.equal(webSocketAccept(NONCE), ACCEPT);
});

test("a good handshake gives its key; Content-Length: 0 is no body, and blanks are nothing", () => {
  const judged = { ok: true, value: { key: NONCE } };
  assert.deepEqual(validateHandshake(headWith()), judged);
  const blanks = { Upgrade: " websocket\t", "Sec-WebSocket-Key": ` ${NONCE} ` };
  assert.deepEqual(validateHandshake(headWith(blanks)), judged);
  assert.equal(validateHandshake(headWith({ "Content-Length": "0" }))?.ok, true);
});

type Asking = ReturnType<typeof headWith>;
const twice = (name: string, value: string) => {
  return { ...headWith(), rawHeaders: [...headWith().rawHeaders, name, value] };
};
const BODY = "an upgrade with a body";
const VERSION = "not WebSocket version 13";
const KEY = "no Sec-WebSocket-Key of 16 bytes";
const BAD: readonly (readonly [name: string, head: Asking, why: string])[] = [
  ["POST", headWith({}, "POST"), "an upgrade with another method than GET"],
  ["a length", headWith({ "Content-Length": "1" }), BODY],
  ["a coding", headWith({ "Transfer-Encoding": "chunked" }), BODY],
  ["version 14", headWith({ "Sec-WebSocket-Version": "14" }), VERSION],
  ["no version", headWith({ "Sec-WebSocket-Version": "" }), VERSION],
  ["no key", headWith({ "Sec-WebSocket-Key": "" }), KEY],
  ["a key one short", headWith({ "Sec-WebSocket-Key": NONCE.slice(1) }), KEY],
  ["a key one long", headWith({ "Sec-WebSocket-Key": `A${NONCE}` }), KEY],
  ["a key with more behind it", headWith({ "Sec-WebSocket-Key": `${NONCE}A` }), KEY],
  ["two keys", twice("sec-websocket-key", NONCE), KEY],
  ["two upgrades", twice("upgrade", "h2c"), "more than one upgrade"],
];

for (const [name, head, why] of BAD) {
  test(`a handshake with ${name} asks for a WebSocket, and is refused`, () => {
    const refusal = { code: "bad_request", why };
    assert.deepEqual(validateHandshake(head), { ok: false, refusal });
  });
}

const NONE: Readonly<Record<string, ReturnType<typeof headWith>>> = {
  h2c: headWith({ Upgrade: "h2c" }),
  "no Upgrade": headWith({ Upgrade: "" }),
  "no Connection": headWith({ Connection: "" }),
  "another Connection": headWith({ Connection: "keep-alive, upgrades" }),
  "HTTP/1.0": headWith({}, "GET", "1.0"),
};

for (const [name, head] of Object.entries(NONE)) {
  test(`a request with ${name} asks for no WebSocket`, () => {
    assert.equal(validateHandshake(head), undefined);
  });
}

test("a 101 must switch to WebSocket, once, with the accept of this key, once", () => {
  const good = ["Upgrade", "websocket", "Sec-WebSocket-Accept", ACCEPT];
  assert.equal(switchError(good, NONCE), undefined);
  assert.match(switchError(good.slice(2), NONCE) ?? "", /something else/);
  assert.match(switchError(["Upgrade", "h2c", ...good.slice(2)], NONCE) ?? "", /something else/);
  assert.match(switchError([...good, ...good.slice(0, 2)], NONCE) ?? "", /something else/);
  assert.match(switchError(good.slice(0, 2), NONCE) ?? "", /Accept/);
  assert.match(switchError([...good, ...good.slice(2)], NONCE) ?? "", /Accept/);
  assert.match(switchError(good, `B${NONCE.slice(1)}`) ?? "", /Accept/);
});

/** A frame as RFC 6455 5.2 has it, with the shortest length that fits. */
function frameOf({ opcode, length, masked }: { opcode: number; length: number; masked: boolean }) {
  const mask = masked ? 0x80 : 0;
  const head = [0x80 | opcode];
  if (length < 126) head.push(mask | length);
  else if (length < 65_536) head.push(mask | 126, length >> 8, length & 0xff);
  else
    head.push(
      mask | 127,
      0,
      0,
      0,
      0,
      length >>> 24,
      (length >> 16) & 0xff,
      (length >> 8) & 0xff,
      length & 0xff,
    );
  return Buffer.concat([
    Buffer.from(head),
    Buffer.alloc(masked ? 4 : 0),
    Buffer.alloc(length, 0x88),
  ]);
}

const FRAME = fc.record({
  opcode: fc.constantFrom(0, 1, 2, 9, 10),
  length: fc.oneof(fc.constantFrom(0, 1, 125, 126, 127, 65_535, 65_536), fc.nat(300)),
  masked: fc.boolean(),
});

test("a close may follow exactly where a frame has ended, however the bytes are cut", () => {
  fc.assert(
    fc.property(fc.array(FRAME, { maxLength: 6 }), fc.array(fc.nat()), (frames, cuts) => {
      const pieces = frames.map(frameOf);
      const bytes = Buffer.concat(pieces);
      const ends = new Set([0]);
      let end = 0;
      for (const { length } of pieces) {
        end += length;
        ends.add(end);
      }
      const at = cuts.map((cut) => (bytes.length === 0 ? 0 : cut % (bytes.length + 1)));
      const stops = [...new Set([...at, ...ends, bytes.length])].sort((a, b) => a - b);
      const followed = new Frames();
      let from = 0;
      for (const stop of stops) {
        followed.pass(bytes.subarray(from, stop));
        from = stop;
        assert.equal(followed.mayClose, ends.has(stop), `at ${stop} of ${bytes.length}`);
      }
    }),
  );
});

test("behind a close of the backend nothing may follow", () => {
  const frames = new Frames();
  frames.pass(Uint8Array.of(0x88, 0));
  assert.equal(frames.mayClose, false);
});

test("our close is an unmasked frame with the status", () => {
  assert.deepEqual([...closeFrame(1001)], [0x88, 2, 0x03, 0xe9]);
  assert.deepEqual([...closeFrame(1008)], [0x88, 2, 0x03, 0xf0]);
});
