import httpProxy from "@fastify/http-proxy";
import rateLimit from "@fastify/rate-limit";
import { fastify } from "fastify";
import { Redis } from "ioredis";
import { accountOf, logged, options } from "./accounts.mjs";

// One window: @fastify/rate-limit counts no second one for the same request.
const app = fastify({ keepAliveTimeout: 600_000 });

app.addHook("onRequest", async (request, reply) => {
  logged(request.raw, reply.raw);
  const account = accountOf(request);
  if (account === undefined) return reply.code(401).send({ code: "key_invalid" });
  request.account = account;
});
app.decorateRequest("account", "");
await app.register(rateLimit, {
  max: options.limits.minute,
  timeWindow: "1 minute",
  nameSpace: "fastify:",
  redis: new Redis({ port: options.storePort, host: "127.0.0.1" }),
  keyGenerator: (request) => request.account,
});
await app.register(httpProxy, {
  upstream: `http://127.0.0.1:${options.backendPort}`,
  prefix: "/v1",
  rewritePrefix: "/v1",
  undici: { connections: 128 },
  replyOptions: {
    rewriteRequestHeaders: (request, { authorization: _, ...headers }) => {
      return { ...headers, "x-consumer-id": request.account };
    },
  },
});
await app.listen({ port: options.port, host: "127.0.0.1" });
