import { createServer } from "node:http";

// The cheapest backend that Node can be: a small JSON text, 64 KiB of it for /pets/ID, and uploads
// that are read to their end.
const SMALL = Buffer.from('{"id":1,"name":"Rex","categoryId":1,"status":"available"}');
const LARGE = Buffer.alloc(65_536, "a");
const head = (body) => ["Content-Type", "application/json", "Content-Length", String(body.length)];
const [SMALL_HEAD, LARGE_HEAD] = [head(SMALL), head(LARGE)];

createServer({ keepAliveTimeout: 600_000, noDelay: true }, (request, response) => {
  const isLarge = request.url.endsWith("/pets/1");
  const answer = () => {
    response.writeHead(200, isLarge ? LARGE_HEAD : SMALL_HEAD);
    response.end(isLarge ? LARGE : SMALL);
  };
  if (request.method === "GET") return answer();
  request.resume();
  request.once("end", answer);
}).listen(Number(process.argv[2]), "127.0.0.1");
