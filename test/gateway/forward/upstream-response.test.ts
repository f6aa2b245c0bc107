import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { validateResponse } from "../../../src/gateway/forward/upstream-response.ts";

/** The raw fields of a response with `count` fields. */
function fields(count: number): string[] {
  return Array.from({ length: count }, (_, i) => [`X-${i}`, "1"]).flat();
}

// docs/reference/edge.md#response-head
describe("a response of a backend", () => {
  it("passes with 100 fields, and not with 101", () => {
    assert.equal(validateResponse(200, fields(100)), undefined);
    assert.equal(validateResponse(200, fields(101)), "too many fields");
  });

  it("passes with status 599, and not with 600", () => {
    assert.equal(validateResponse(599, []), undefined);
    assert.equal(validateResponse(600, []), "status 600");
  });

  it("passes with the transfer coding chunked once, in any case, as any of its fields", () => {
    const coded = (...more: string[]) => validateResponse(200, [...fields(2), ...more]);
    assert.equal(coded("Transfer-Encoding", "Chunked"), undefined);
    assert.equal(
      coded("TRANSFER-ENCODING", "gzip, chunked"),
      "Transfer-Encoding is not one chunked",
    );
    assert.equal(coded("Transfer-Encoding", "identity"), "Transfer-Encoding is not one chunked");
    const twice = ["transfer-encoding", "chunked"];
    assert.equal(coded(...twice, ...twice), "Transfer-Encoding is not one chunked");
  });
});
