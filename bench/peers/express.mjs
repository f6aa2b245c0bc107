import { Agent } from "node:http";
import express from "express";
import { rateLimit } from "express-rate-limit";
import { createProxyMiddleware } from "http-proxy-middleware";
import { Redis } from "ioredis";
import { RedisStore } from "rate-limit-redis";
import { accountOf, logged, options } from "./accounts.mjs";

const redis = new Redis({ port: options.storePort, host: "127.0.0.1" });
const window = (prefix, windowMs, limit) => {
  return rateLimit({
    windowMs,
    limit,
    legacyHeaders: true,
    standardHeaders: false,
    keyGenerator: (request) => request.account,
    store: new RedisStore({
      prefix,
      sendCommand: (command, ...args) => redis.call(command, ...args),
    }),
  });
};

const app = express();
app.disable("x-powered-by");
app.use((request, response, next) => {
  logged(request, response);
  const account = accountOf(request);
  if (account === undefined) return void response.status(401).end();
  request.account = account;
  delete request.headers.authorization;
  request.headers["x-consumer-id"] = account;
  next();
});
app.use(window("express-day:", 86_400_000, options.limits.day));
app.use(window("express-minute:", 60_000, options.limits.minute));
app.use(
  createProxyMiddleware({
    target: `http://127.0.0.1:${options.backendPort}`,
    agent: new Agent({ keepAlive: true, maxSockets: 128 }),
  }),
);
app.listen(options.port, "127.0.0.1").keepAliveTimeout = 600_000;
