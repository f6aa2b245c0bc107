import { createServer } from "node:http";
import { Pool } from "undici";
import { options } from "./accounts.mjs";

// The leanest proxy that node:http and undici make together: every field but those of the hop.
const HOP = new Set(["connection", "keep-alive", "transfer-encoding", "host"]);
const pool = new Pool(`http://127.0.0.1:${options.backendPort}`, { connections: 128 });

class Forward {
  constructor(response) {
    this.response = response;
  }
  onRequestStart() {}
  onResponseStart(controller, status, headers) {
    const fields = [];
    for (const name in headers) if (!HOP.has(name)) fields.push(name, headers[name]);
    this.response.writeHead(status, fields);
    this.response.on("drain", () => controller.resume());
    this.response.once("close", () => {
      if (!this.response.writableFinished) controller.abort(new Error("The client is gone"));
    });
  }
  onResponseData(controller, chunk) {
    if (!this.response.write(chunk)) controller.pause();
  }
  onResponseEnd() {
    this.response.end();
  }
  onResponseError() {
    if (!this.response.headersSent) this.response.writeHead(502);
    this.response.end();
  }
}

createServer({ keepAliveTimeout: 600_000, noDelay: true }, (request, response) => {
  const { method, url, rawHeaders } = request;
  const headers = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!HOP.has(rawHeaders[i].toLowerCase())) headers.push(rawHeaders[i], rawHeaders[i + 1]);
  }
  const body = method === "GET" ? null : request;
  pool.dispatch({ method, path: url, headers, body }, new Forward(response));
}).listen(options.port, "127.0.0.1");
