import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { smugglingVectors, upstreamVectors } from "../support/wire/vectors.ts";
import { readResponse } from "./backend-bytes.ts";
import { serve, serveLate } from "./client-bytes.ts";
import { requestBytes, responseBytes } from "./messages.ts";
import { cutAt, everyCut, singly, sizes } from "./pieces.ts";

/** Beyond this every cut is too many: then a few hundred of them. */
const EVERY_CUT_MAX = 2_000;

function sameHowever(bytes: Buffer, read: (pieces: readonly Buffer[]) => unknown): void {
  const whole = read([bytes]);
  if (bytes.length <= EVERY_CUT_MAX) {
    for (const pieces of everyCut(bytes)) expect(read(pieces)).toEqual(whole);
  }
  for (const size of [1_400, 97, 3]) expect(read(cutAt(bytes, [size]))).toEqual(whole);
  expect(read(singly(bytes))).toEqual(whole);
}

describe("any cutting of a client's bytes gives the same result", () => {
  for (const { name, bytes } of smugglingVectors()) {
    it(`of ${name}`, () => {
      sameHowever(bytes, serve);
      expect(serveLate([bytes])).toEqual(serve([bytes]));
      expect(serveLate(singly(bytes))).toEqual(serve([bytes]));
    });
  }

  it("of requests that were made up and broken, in any pieces", () => {
    fc.assert(
      fc.property(requestBytes, sizes, (bytes, pieces) => {
        const whole = serve([bytes]);
        expect(serve(cutAt(bytes, pieces))).toEqual(whole);
        expect(serve(singly(bytes))).toEqual(whole);
      }),
      { numRuns: 1_500 },
    );
  });

  it("of requests that wait for the answers before them", () => {
    fc.assert(
      fc.property(requestBytes, sizes, (bytes, pieces) => {
        expect(serveLate(cutAt(bytes, pieces))).toEqual(serve([bytes]));
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("any cutting of a backend's bytes gives the same result", () => {
  for (const { name, bytes } of upstreamVectors()) {
    it(`of ${name}`, () => {
      for (const method of ["GET", "HEAD"]) {
        sameHowever(bytes, (pieces) => readResponse(method, pieces));
      }
    });
  }

  it("of responses that were made up and broken, in any pieces", () => {
    fc.assert(
      fc.property(responseBytes, sizes, (bytes, pieces) => {
        const whole = readResponse("GET", [bytes]);
        expect(readResponse("GET", cutAt(bytes, pieces))).toEqual(whole);
        expect(readResponse("GET", singly(bytes))).toEqual(whole);
      }),
      { numRuns: 1_500 },
    );
  });
});
