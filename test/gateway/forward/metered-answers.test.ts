import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { afterAll, describe, it, vi } from "vitest";
import { AnswerReader } from "../../../src/core/meters/answer-reader.ts";
import { READ_BYTES_MAX } from "../../../src/http1/client/buffer-pool.ts";
import type { RequestListener } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient, type RequestOptions } from "../../support/wire/client.ts";
import { valuesOf } from "../../support/wire/response.ts";

const HOLD = 20;
const MAX = 100;
const USED = ["header x-used", "json /usage/total", "sse /usage/total"];
const METERED_BYTES = 2_000;
/** After so many bytes the other connections have their turn. */
const TURN_BYTES = 65_536;

async function openMetered() {
  const tokens = (used: readonly string[], more = {}) => {
    return { tokens: { hold: HOLD, max: MAX, used, ...more } };
  };
  return await startTestGateway({
    environment: {
      api: null,
      limits: { meteredBytes: `${METERED_BYTES}B` },
      costs: [
        { match: "GET /v1/any", meters: tokens(USED) },
        { match: "POST /v1/any", meters: tokens(USED) },
        { match: "GET /v1/field", meters: tokens(["header X-Used"]) },
        { match: "GET /v1/most", meters: tokens(USED, { untold: "max" }) },
        { match: "GET /v1/some", meters: tokens(USED, { untold: 33 }) },
        {
          match: "GET /v1/two",
          meters: { ...tokens(["json /a"]), rows: { hold: 1, max: 9, used: ["json /b"] } },
        },
      ],
    },
    config: {
      plans: { free: { day: 1_000_000, meters: { tokens: "unlimited", rows: "unlimited" } } },
      limits: { drain: "1s", idleTimeout: "1s" },
    },
  });
}

const json = (body: string, fields = {}): RequestListener => {
  return (_seen, response) => {
    response.writeHead(200, { "Content-Type": "application/json", ...fields }).end(body);
  };
};

describe("a metered answer", async () => {
  const house = await openMetered();
  afterAll(() => house[Symbol.asyncDispose]());
  const { backend, lines } = house;
  const { key } = await house.issue();

  const lineAt = (place: number) => {
    return eventually(() => {
      const entry = lines[place];
      assert.ok(entry !== undefined, "no line yet");
      return entry;
    });
  };

  /** The answer to one request, and what its line tells of the meters. */
  async function ask(path: string, answer: RequestListener, more: RequestOptions = {}) {
    backend.answer(answer);
    const before = lines.length;
    await using client = await openClient(house.port);
    const response = await client.ask({ key, path, ...more });
    const entry = await lineAt(before);
    return { response, meters: entry.meters, entry };
  }

  it("tells by a field, which the client does not get, however it is written", async () => {
    const fields = { "X-USED": "7", "X-Other": "8" };
    const { response, meters } = await ask("/v1/field", json("{}", fields));
    assert.deepEqual(meters, { tokens: { hold: HOLD, used: 7 } });
    assert.deepEqual(valuesOf(response, "x-used"), []);
    assert.deepEqual(valuesOf(response, "x-other"), ["8"]);
    const twice = await ask("/v1/field", json("{}", { "X-Used": ["7", "7"] }));
    assert.deepEqual(twice.meters, { tokens: { hold: HOLD } });
    assert.deepEqual(valuesOf(twice.response, "x-used"), []);
    const early: RequestListener = (_seen, answer) => {
      answer.writeEarlyHints({ link: "</a>; rel=preload", "x-used": "5" });
      answer.writeHead(200, { "X-Used": "6" }).end();
    };
    const { meters: hinted } = await ask("/v1/field", early);
    assert.deepEqual(hinted, { tokens: { hold: HOLD, used: 6 } });
  });

  it("keeps a field of that name where the route is not metered by it", async () => {
    const { response, meters } = await ask("/v1/else", json("{}", { "X-Used": "7" }));
    assert.deepEqual(valuesOf(response, "x-used"), ["7"]);
    assert.equal(meters, undefined);
  });

  it("tells by JSON, and passes byte for byte, with and without a length", async () => {
    const body = '{"text":"é😀","usage":{"total":42}}';
    const { response, meters } = await ask("/v1/any", json(body));
    assert.deepEqual(meters, { tokens: { hold: HOLD, used: 42 } });
    assert.equal(response.body.toString(), body);
    const bytewise: RequestListener = async (_seen, answer) => {
      answer.writeHead(200, { "Content-Type": "application/json" });
      for (const byte of Buffer.from(body)) {
        await new Promise((resolve) => answer.write(Buffer.of(byte), resolve));
      }
      answer.end();
    };
    const slow = await ask("/v1/any", bytewise);
    assert.deepEqual(slow.meters, { tokens: { hold: HOLD, used: 42 } });
    assert.equal(slow.response.body.toString(), body);
  });

  it("tells each meter by itself", async () => {
    const { meters } = await ask("/v1/two", json('{"a":5,"b":3}'));
    assert.deepEqual(meters, { tokens: { hold: HOLD, used: 5 }, rows: { hold: 1, used: 3 } });
  });

  it("is asked for without a coding, and a coded one tells nothing", async () => {
    const fields = [
      ["Accept-Encoding", "gzip"],
      ["accept-encoding", "br"],
    ] as const;
    const coded = gzipSync('{"usage":{"total":5}}');
    const { meters, response } = await ask(
      "/v1/any",
      (_seen, answer) => {
        const type = { "Content-Type": "application/json", "Content-Encoding": "gzip" };
        answer.writeHead(200, type).end(coded);
      },
      { fields },
    );
    assert.deepEqual(meters, { tokens: { hold: HOLD } });
    assert.deepEqual(response.body, coded);
    const asked = () => {
      const { rawHeaders = [] } = backend.seen.at(-1) ?? {};
      return rawHeaders.filter((_, i) => rawHeaders[i - 1]?.toLowerCase() === "accept-encoding");
    };
    assert.deepEqual(asked(), ["identity"]);
    await ask("/v1/field", json("{}"), { fields });
    assert.deepEqual(asked(), ["gzip", "br"]);
    await ask("/v1/else", json("{}"), { fields });
    assert.deepEqual(asked(), ["gzip", "br"]);
  });

  it("is charged as max above max, told whole, and counted", async () => {
    const { meters } = await ask("/v1/any", json('{"usage":{"total":1000000000000}}'));
    assert.deepEqual(meters, { tokens: { hold: HOLD, used: 1e12, charged: MAX } });
    const metrics = await (await house.admin("/metrics")).text();
    assert.match(metrics, /^tollgate_meter_over_max_total 1$/m);
    assert.match(metrics, /^tollgate_meter_units_total\{meter="tokens"\} \d+$/m);
  });

  it("takes untold where it tells nothing: the hold, the most, or a number", async () => {
    for (const body of ['{"usage":{"total":-1}}', '{"usage":{"total":1.5}}', "{}", "no json"]) {
      const { meters } = await ask("/v1/any", json(body));
      assert.deepEqual(meters, { tokens: { hold: HOLD } }, body);
    }
    const { meters: most } = await ask("/v1/most", json("{}"));
    assert.deepEqual(most, { tokens: { hold: HOLD, charged: MAX } });
    const { meters: some } = await ask("/v1/some", json("{}"));
    assert.deepEqual(some, { tokens: { hold: HOLD, charged: 33 } });
  });

  it("takes nothing where a whole answer of 400 and up tells nothing", async () => {
    const status = (code: number, body = "{}"): RequestListener => {
      return (_seen, response) => {
        response.writeHead(code, { "Content-Type": "application/json" }).end(body);
      };
    };
    const free = { tokens: { hold: HOLD, charged: 0 } };
    for (const code of [400, 404, 429, 500, 503]) {
      assert.deepEqual((await ask("/v1/most", status(code))).meters, free, String(code));
    }
    const { meters: redirected } = await ask("/v1/any", status(399));
    assert.deepEqual(redirected, { tokens: { hold: HOLD } });
    const { meters: told } = await ask("/v1/any", status(500, '{"usage":{"total":5}}'));
    assert.deepEqual(told, { tokens: { hold: HOLD, used: 5 } });
  });

  it("takes untold where an answer of 400 and up is cut", async () => {
    backend.answer((_seen, response, request) => {
      response.writeHead(500, { "Content-Type": "application/json" });
      response.write("{", () => request.socket.destroy());
    });
    const before = lines.length;
    await assert.rejects(house.ask(key, "/v1/any").then((answer) => answer.text()));
    const entry = await lineAt(before);
    assert.deepEqual(entry.meters, { tokens: { hold: HOLD } });
  });

  it("takes untold where a backend has the request and no answer is passed on", async () => {
    const { meters, entry } = await ask("/v1/any", (_seen, response) => {
      response.socket?.end("HTTP/1.1 600 Odd\r\n\r\n");
    });
    assert.deepEqual([entry.code, meters], ["upstream_invalid", { tokens: { hold: HOLD } }]);
  });

  it("tells HEAD and 206 by a field alone", async () => {
    const both = { "X-Used": "4" };
    const headed = await ask("/v1/any", json("", both), { method: "HEAD" });
    assert.deepEqual(headed.meters, { tokens: { hold: HOLD, used: 4 } });
    const { meters } = await ask("/v1/any", (_seen, response) => {
      const fields = { "Content-Type": "application/json", "Content-Range": "bytes 0-21/22" };
      response.writeHead(206, fields).end('{"usage":{"total":5}}');
    });
    assert.deepEqual(meters, { tokens: { hold: HOLD } });
  });

  it("is read from so many bytes of JSON, and passes whole", async () => {
    const padded = (bytes: number) => {
      const [start, end] = ['{"x":"', '","usage":{"total":5}}'];
      return `${start}${"y".repeat(bytes - start.length - end.length)}${end}`;
    };
    const { meters } = await ask("/v1/any", json(padded(METERED_BYTES)));
    assert.deepEqual(meters, { tokens: { hold: HOLD, used: 5 } });
    const body = padded(METERED_BYTES + 100);
    const longer = await ask("/v1/any", json(body));
    assert.deepEqual(longer.meters, { tokens: { hold: HOLD } });
    assert.equal(longer.response.body.toString(), body);
  });

  it("passes each event of a stream at once, and tells by the last that has the place", async () => {
    let more: (event: string) => void = () => {};
    let end: () => void = () => {};
    backend.answer((_seen, response) => {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.flushHeaders();
      more = (event) => void response.write(event);
      end = () => void response.end();
    });
    const before = lines.length;
    const response = await house.ask(key, "/v1/any");
    assert.ok(response.body !== null);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (const event of ['data: {"a":', "1}\r", "\n\r\n", 'data: {"usage":{"total":9}}\n\n']) {
      more(event);
      assert.deepEqual(await reader.read(), { done: false, value: event });
    }
    assert.equal(lines.length, before);
    more("data: [DONE]\n\n");
    end();
    while (!(await reader.read()).done);
    const entry = await lineAt(before);
    assert.deepEqual(entry.meters, { tokens: { hold: HOLD, used: 9 } });
  });

  it("lets other connections have their turn after 64 KiB of it, and tells the same", async () => {
    let turn = 0;
    let immediate = setImmediate(function count() {
      turn += 1;
      immediate = setImmediate(count);
    });
    const bytesIn = new Map<number, number>();
    const { read } = AnswerReader.prototype;
    const spied = vi.spyOn(AnswerReader.prototype, "read");
    spied.mockImplementation(function (this: AnswerReader, bytes: Uint8Array) {
      bytesIn.set(turn, (bytesIn.get(turn) ?? 0) + bytes.length);
      read.call(this, bytes);
    });
    try {
      const body = 'data: {"usage":{"total":9}}\n\n'.repeat(100_000);
      const { meters, response } = await ask("/v1/any", (_seen, answer) => {
        answer.writeHead(200, { "Content-Type": "text/event-stream" }).end(body);
      });
      assert.deepEqual(meters, { tokens: { hold: HOLD, used: 9 } });
      assert.ok(response.body.toString() === body);
      const each = [...bytesIn.values()];
      assert.equal(
        each.reduce((sum, bytes) => sum + bytes, 0),
        body.length,
      );
      assert.ok(Math.max(...each) < TURN_BYTES + READ_BYTES_MAX, `${Math.max(...each)} in a turn`);
    } finally {
      spied.mockRestore();
      clearImmediate(immediate);
    }
  });

  it("takes what was told before a client left, and untold if nothing was", async () => {
    for (const [event, expected] of [
      ['data: {"usage":{"total":9}}\n\n', { hold: HOLD, used: 9 }],
      ['data: {"usage":{"total":9}}\n', { hold: HOLD }],
    ] as const) {
      backend.answer((_seen, response) => {
        response.writeHead(200, { "Content-Type": "text/event-stream" }).write(event);
      });
      const before = lines.length;
      const leaving = new AbortController();
      const { signal } = leaving;
      const response = await house.ask(key, "/v1/any", { signal });
      await response.body?.getReader().read();
      leaving.abort();
      const entry = await lineAt(before);
      assert.deepEqual([entry.status, entry.meters], [200, { tokens: expected }]);
    }
  });

  it("takes nothing where no backend got the request", async () => {
    const { meters, entry } = await ask("/v1/any", json("{}"), { method: "PATCH" });
    assert.deepEqual([entry.status, meters], [200, undefined]);
    backend.cut();
    await backend.close();
    const before = lines.length;
    const response = await house.ask(key, "/v1/most");
    assert.equal(response.status, 502);
    const lost = await lineAt(before);
    assert.deepEqual(lost.meters, { tokens: { hold: HOLD, charged: 0 } });
    assert.equal(lost.forwards, 0);
  });
});
