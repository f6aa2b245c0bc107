import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { eventually } from "../../test/support/poll.ts";
import { find, LUA_MODULES, LUA_PATH } from "./needs.ts";
import { LIMITS, type Peer, type PeerOptions, startServer } from "./peer.ts";

const HERE = new URL(".", import.meta.url).pathname;

/** nginx with Lua and one Redis script a request: the architecture of Kong and APISIX. */
export async function startNginx(options: PeerOptions): Promise<Peer> {
  const { port, keys } = options;
  const directory = join(options.directory, "nginx");
  await mkdir(directory);
  const rows = keys.map((key, i) => `${hash("sha1", key, "base64")} account-${i}`);
  await writeFile(join(directory, "keys.txt"), `${rows.join("\n")}\n`);
  const file = join(directory, "nginx.conf");
  await writeFile(file, configText({ ...options, directory }));
  const { child, stop } = await startServer(
    port,
    [find("nginx") ?? "nginx", "-c", file, "-p", directory],
    ["ignore", "inherit", "inherit"],
  );
  try {
    // The master listens before its only worker is there.
    const pid = await eventually(() => workerOf(child.pid ?? 0));
    return { pid, url: `http://127.0.0.1:${port}`, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Throws while there is none. */
function workerOf(master: number): number {
  const children = readFileSync(`/proc/${master}/task/${master}/children`, "utf8").trim();
  if (children === "") throw new Error("nginx has no worker");
  return Number(children.split(" ")[0]);
}

function configText({ directory, port, redisPort, backendPort }: PeerOptions): string {
  return `daemon off; master_process on; worker_processes 1; error_log ${directory}/error.log warn; pid ${directory}/pid;
${LUA_MODULES.map((path) => `load_module ${path};`).join("\n")}
events { worker_connections 4096; }
http {
  log_format line '{"id":"$request_id","method":"$request_method","path":"$uri","status":$status,"durationMs":$request_time}';
  access_log ${directory}/access.log line buffer=64k flush=100ms;
  keepalive_requests 1000000000; client_body_temp_path ${directory}; proxy_temp_path ${directory};
  fastcgi_temp_path ${directory}; uwsgi_temp_path ${directory}; scgi_temp_path ${directory};
  lua_package_path "${HERE}?.lua;${LUA_PATH};;";
  lua_shared_dict keys 10m;
  init_by_lua_block {
    limit = require "limit"
    limit.redis_port, limit.minute, limit.day = ${redisPort}, ${LIMITS.minute}, ${LIMITS.day}
    for line in io.lines("${directory}/keys.txt") do
      local digest, account = string.match(line, "^(%S+) (%S+)$")
      ngx.shared.keys:set(digest, account)
    end
  }
  upstream backend { server 127.0.0.1:${backendPort}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port};
    location /v1/ {
      access_by_lua_block { limit.access() }
      proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Request-Id $request_id;
      proxy_pass http://backend;
    }
  }
}
`;
}
