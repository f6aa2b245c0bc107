import assert from "node:assert/strict";
import { it } from "vitest";
import type { RefusalCode } from "../../../src/core/refusal.ts";
import type { Exchange } from "../../../src/gateway/exchange/exchange.ts";
import { endReason } from "../../../src/gateway/forward/upstream-response.ts";

function why(code: RefusalCode, exchange: { begun: boolean; promised?: number }): string {
  const { begun, promised = -1 } = exchange;
  const response = { headWritten: begun };
  const ended = {
    response,
    bodyBytes: 7,
    answer: { promisedBytes: promised },
  } as unknown as Exchange;
  return endReason({ code, why: "the reason" }, ended);
}

it("an answer that a backend broke off is told with the bytes that had come, of those that it promised", () => {
  const aborted = "upstream_aborted: the reason, after 7";
  assert.equal(
    why("upstream_unreachable", { begun: true, promised: 9 }),
    `${aborted} of 9 bytes of the body`,
  );
  assert.equal(why("upstream_invalid", { begun: true }), `${aborted} bytes of the body`);
  assert.equal(why("upstream_timeout", { begun: true }), "the reason, after 7 bytes of the body");
});

it("no bytes are told before the answer began, nor where the backend was not at fault", () => {
  assert.equal(why("upstream_invalid", { begun: false }), "the reason");
  assert.equal(why("request_timeout", { begun: true }), "the reason");
});
