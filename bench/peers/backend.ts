import { createServer } from "node:http";

/** The cheapest backend that Node can be: one small JSON text for everything. */
const BODY = Buffer.from('{"id":1,"name":"Rex","categoryId":1,"status":"available"}');
const HEAD = ["Content-Type", "application/json", "Content-Length", String(BODY.length)];

createServer({ keepAliveTimeout: 65_000 }, (_request, response) => {
  response.writeHead(200, HEAD);
  response.end(BODY);
}).listen(Number(process.argv[2]), "127.0.0.1");
