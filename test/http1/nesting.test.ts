import { expect, it } from "vitest";
import { Server, waiting } from "./client-bytes.ts";

const GET = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

it("answers ten thousand pipelined requests without nesting them", () => {
  const server = new Server();
  server.line.receive(GET.repeat(10_000));
  expect(server.seen).toHaveLength(10_000);
  const late = waiting(GET.repeat(2_000));
  for (let i = 0; i < 2_000; i++) late.answer();
  expect(late.seen).toHaveLength(2_000);
});
