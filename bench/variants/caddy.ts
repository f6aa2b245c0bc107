import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { find } from "../stage/needs.ts";
import { type Server, startServer } from "../stage/server.ts";
import type { StartOptions } from "./variant.ts";

/** Caddy as a proxy that decides nothing: Debian's has no rate limiter. */
export async function startCaddy(options: StartOptions): Promise<Server> {
  const { directory, port, backendPort } = options;
  const file = join(directory, "Caddyfile");
  const text = `{
  admin off
  auto_https off
  log {
    output file ${directory}/caddy.log
  }
}
http://127.0.0.1:${port}, http://bench.test:${port} {
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:${backendPort} {
    transport http {
      keepalive_idle_conns_per_host 256
    }
  }
}
`;
  await writeFile(file, text);
  return startServer({
    command: [find("caddy"), "run", "--config", file, "--adapter", "caddyfile"],
    port,
    logFile: join(directory, "out.log"),
    env: { HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory },
  });
}
