import assert from "node:assert/strict";
import { it } from "vitest";
import { refusalCodeFor } from "../../../src/gateway/listen/parser-error.ts";

it("bytes that are no request are told by their method where its name alone is foreign", () => {
  // docs/reference/edge.md#versions-and-methods
  for (const wrong of ["line", "version"] as const) {
    for (const method of ["PRI", "DESCRIBE", "get"]) {
      assert.equal(refusalCodeFor(wrong, method), "not_implemented", `${method} ${wrong}`);
    }
  }
  for (const method of ["", "GET", "CONNECT", "TRACE"]) {
    assert.equal(refusalCodeFor("line", method), "bad_request", method);
    assert.equal(refusalCodeFor("version", method), "http_version", method);
  }
  assert.equal(refusalCodeFor("field", "DESCRIBE"), "bad_request");
  assert.equal(refusalCodeFor("head_overflow", "PRI"), "headers_too_large");
});
