import { expect, it } from "vitest";
import { encodeRequestHead } from "../../src/http1/client/outgoing-request.ts";

it.each([
  ["nothing of a body", undefined, ""],
  ["an empty body", 0, "Content-Length: 0\r\n"],
  ["a body of a length", 12, "Content-Length: 12\r\n"],
  ["a body in chunks", "chunked", "Transfer-Encoding: chunked\r\n"],
] as const)(
  "the head of a request says %s, behind its Host and its fields",
  (_what, body, framing) => {
    const request = {
      method: "PUT",
      target: "/a?b",
      host: "backend.test:81",
      fields: ["X-A", "b"],
    };
    expect(encodeRequestHead({ ...request, body })).toBe(
      `PUT /a?b HTTP/1.1\r\nHost: backend.test:81\r\nX-A: b\r\n${framing}\r\n`,
    );
  },
);
