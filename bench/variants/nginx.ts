import { hash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { find, LUA_MODULES, LUA_PATH } from "../stage/needs.ts";
import { type Server, startServer } from "../stage/server.ts";
import { LIMITS, type StartOptions } from "./variant.ts";

/** nginx as a proxy that decides nothing and logs nothing. */
export function startNginx(options: StartOptions): Promise<Server> {
  return start(options, { top: "", http: "access_log off;", location: "" });
}

/** nginx with Lua and one Redis script a request: the architecture of Kong and APISIX. */
export async function startNginxLua(options: StartOptions): Promise<Server> {
  const { directory, keys, storePort } = options;
  const rows = keys.map((key, i) => `${hash("sha1", key, "base64")} account-${i}`);
  await writeFile(join(directory, "keys.txt"), `${rows.join("\n")}\n`);
  return start(options, {
    top: LUA_MODULES.map((path) => `load_module ${path};`).join("\n"),
    http: `
  log_format line '{"id":"$request_id","method":"$request_method","path":"$uri","status":$status,"durationMs":$request_time}';
  access_log ${directory}/access.log line buffer=64k flush=100ms;
  lua_package_path "${import.meta.dirname}/?.lua;${LUA_PATH};;";
  lua_shared_dict keys 64m;
  init_by_lua_block {
    limit = require "limit"
    limit.redis_port, limit.minute, limit.day = ${storePort}, ${LIMITS.minute}, ${LIMITS.day}
    for line in io.lines("${directory}/keys.txt") do
      local digest, account = string.match(line, "^(%S+) (%S+)$")
      ngx.shared.keys:set(digest, account)
    end
  }`,
    location: `access_by_lua_block { limit.access() }
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Request-Id $request_id;`,
  });
}

type Parts = { readonly top: string; readonly http: string; readonly location: string };

async function start(options: StartOptions, parts: Parts): Promise<Server> {
  const { directory, port } = options;
  const file = join(directory, "nginx.conf");
  await writeFile(file, configText(options, parts));
  return startServer({
    command: [find("nginx"), "-c", file, "-p", directory],
    port,
    logFile: join(directory, "nginx.log"),
    processes: 2,
  });
}

function configText({ directory, port, backendPort }: StartOptions, parts: Parts): string {
  return `daemon off; worker_processes 1; error_log ${directory}/error.log warn; pid ${directory}/pid;
${parts.top}
events { worker_connections 4096; }
http {
  keepalive_requests 1000000000; keepalive_timeout 600s;
  client_max_body_size 2m; client_body_buffer_size 128k; proxy_buffers 8 16k;
  client_body_temp_path ${directory}; proxy_temp_path ${directory};
  fastcgi_temp_path ${directory}; uwsgi_temp_path ${directory}; scgi_temp_path ${directory};
  ${parts.http}
  upstream backend { server 127.0.0.1:${backendPort}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port};
    location /v1/ {
      ${parts.location}
      proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_pass http://backend;
    }
  }
}
`;
}
