import { createServer } from "node:http";
import { options } from "./accounts.mjs";

// The floor of any server on Node: it forwards nothing.
const BODY = Buffer.from('{"id":1,"name":"Rex","categoryId":1,"status":"available"}');
const HEAD = ["Content-Type", "application/json", "Content-Length", String(BODY.length)];

createServer({ keepAliveTimeout: 600_000, noDelay: true }, (_request, response) => {
  response.writeHead(200, HEAD);
  response.end(BODY);
}).listen(options.port, "127.0.0.1");
