import { startCaddy } from "./caddy.ts";
import { startHaproxy } from "./haproxy.ts";
import { startNginx, startNginxLua } from "./nginx.ts";
import { nodePeer } from "./node-peer.ts";
import { startTollgate } from "./tollgate.ts";
import type { StartOptions, Variant } from "./variant.ts";

/** All figures are held against this one. */
export const REFERENCE = "tollgate-redis-1000";
/** The same architecture by others: the targets are ratios to it. */
export const RIVAL = "nginx-lua-redis-1000";

const TWO_WINDOWS = "key, 2 windows";
const ONE_WINDOW = "key, 1 window";
const NOTHING = "nothing";

const onRedis = (options: StartOptions) => startTollgate({ ...options, store: "redis" });
const withTollgate = (keys: number, more: Partial<Variant> = {}): Variant => ({
  name: `tollgate-redis-${keys}`,
  title: "Tollgate, Redis",
  counts: TWO_WINDOWS,
  keys,
  usesStore: true,
  needs: [],
  start: onRedis,
  ...more,
});
const withLua = (keys: number, more: Partial<Variant> = {}): Variant => ({
  name: `nginx-lua-redis-${keys}`,
  title: "nginx + Lua + Redis",
  counts: TWO_WINDOWS,
  keys,
  usesStore: true,
  needs: ["nginx", "libnginx-mod-http-lua", "lua-nginx-redis"],
  start: startNginxLua,
  ...more,
});
/** Bare proxies: what a request costs before anything is decided. */
const bare = (
  [name, title]: readonly [name: string, title: string],
  needs: Variant["needs"],
  start: Variant["start"],
): Variant => ({ name, title, counts: NOTHING, keys: 1, usesStore: false, needs, start });
const stack = (name: string, title: string, counts: string): Variant => ({
  name,
  title,
  counts,
  keys: 1000,
  usesStore: true,
  needs: ["npm"],
  bodies: name === "fastify",
  start: nodePeer(name),
});

export const VARIANTS: readonly Variant[] = [
  withTollgate(1000, {
    name: "tollgate-memory",
    title: "Tollgate, memory",
    usesStore: false,
    start: (options) => startTollgate({ ...options, store: "memory" }),
  }),
  withTollgate(1),
  withTollgate(1000, { instances: 3 }),
  withTollgate(50_000, { bodies: false }),
  withTollgate(1000, {
    name: "tollgate-workers-2",
    title: "Tollgate, Redis, 2 workers",
    workers: 2,
    bodies: false,
    start: (options) => startTollgate({ ...options, store: "redis", workers: 2 }),
  }),
  withLua(1),
  withLua(1000, { instances: 3 }),
  withLua(50_000, { bodies: false }),
  { ...bare(["haproxy", "HAProxy, stick tables"], ["haproxy"], startHaproxy), ...counted() },
  stack("fastify", "Fastify + http-proxy + rate-limit", ONE_WINDOW),
  {
    ...stack("http-proxy-3", "http-proxy-3 + rate-limiter-flexible", TWO_WINDOWS),
    name: "http-proxy-3-flexible",
    needs: [],
    start: nodePeer("http-proxy-3", { counted: true }),
  },
  stack("express", "Express + http-proxy-middleware + rate-limit-redis", TWO_WINDOWS),
  bare(["nginx", "nginx"], ["nginx"], startNginx),
  bare(["node-undici", "node:http + undici"], [], nodePeer("node-undici")),
  bare(["http-proxy-3", "http-proxy-3"], [], nodePeer("http-proxy-3", { counted: false })),
  { ...bare(["caddy", "Caddy"], ["caddy"], startCaddy), bodies: false },
  {
    ...bare(["node-http", "node:http, answers by itself"], [], nodePeer("node-http")),
    bodies: false,
  },
];

function counted(): Pick<Variant, "counts" | "keys"> {
  return { counts: `${TWO_WINDOWS}, unshared`, keys: 1000 };
}
