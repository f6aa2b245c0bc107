import { STATUS_CODES } from "node:http";
import { expect, it } from "vitest";
import { REASON_PHRASES } from "../../src/http1/write/reason-phrases.ts";

it("a status has the phrase that Node gives it, where it is registered", () => {
  // RFC 9110 15.5.19 leaves 418 unused, and 509 was never registered.
  const { 418: _unused, 509: _unregistered, ...registered } = STATUS_CODES;
  expect(REASON_PHRASES).toEqual(registered);
});
