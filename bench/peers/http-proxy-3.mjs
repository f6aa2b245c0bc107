import { Agent, createServer } from "node:http";
import { createProxyServer } from "http-proxy-3";
import { Redis } from "ioredis";
import { RateLimiterRedis, RateLimiterUnion } from "rate-limiter-flexible";
import { accountOf, logged, options } from "./accounts.mjs";

const agent = new Agent({ keepAlive: true, maxSockets: 128 });
const proxy = createProxyServer({ target: `http://127.0.0.1:${options.backendPort}`, agent });
proxy.on("error", (_error, _request, response) => response.writeHead?.(502).end());

const { minute, day } = options.limits;
const server = { keepAliveTimeout: 600_000, noDelay: true };

if (options.counted) {
  const storeClient = new Redis({ port: options.storePort, host: "127.0.0.1" });
  const window = (keyPrefix, points, duration) => {
    return new RateLimiterRedis({ storeClient, keyPrefix, points, duration });
  };
  const limiter = new RateLimiterUnion(window("minute", minute, 60), window("day", day, 86_400));
  createServer(server, async (request, response) => {
    logged(request, response);
    const account = accountOf(request);
    if (account === undefined) return void response.writeHead(401).end();
    try {
      const used = await limiter.consume(account);
      response.setHeader("X-RateLimit-Limit", minute);
      response.setHeader("X-RateLimit-Remaining", used.minute.remainingPoints);
      response.setHeader("X-RateLimit-Reset", Math.ceil(used.minute.msBeforeNext / 1000));
    } catch {
      return void response.writeHead(429).end();
    }
    delete request.headers.authorization;
    request.headers["x-consumer-id"] = account;
    proxy.web(request, response);
  }).listen(options.port, "127.0.0.1");
} else {
  createServer(server, (request, response) => proxy.web(request, response)).listen(
    options.port,
    "127.0.0.1",
  );
}
