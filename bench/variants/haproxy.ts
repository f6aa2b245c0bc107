import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { find } from "../stage/needs.ts";
import { type Server, startServer } from "../stage/server.ts";
import { LIMITS, type StartOptions } from "./variant.ts";

/** HAProxy with keys in a map and two windows in stick tables: exact in one process, shared by none. */
export async function startHaproxy(options: StartOptions): Promise<Server> {
  const { directory, port, keys } = options;
  const rows = keys.map((key, i) => `${key} account-${i}`);
  await writeFile(join(directory, "keys.map"), `${rows.join("\n")}\n`);
  const file = join(directory, "haproxy.cfg");
  await writeFile(file, configText(options));
  return startServer({
    command: [find("haproxy"), "-db", "-f", file],
    port,
    logFile: join(directory, "access.log"),
  });
}

function configText({ directory, port, backendPort }: StartOptions): string {
  return `global
  maxconn 4096
  nbthread 1
  log stdout format raw local0 info
defaults
  mode http
  log global
  log-format '{"method":"%HM","path":"%HP","status":%ST,"durationMs":%Ta}'
  timeout connect 5s
  timeout client 600s
  timeout server 60s
backend per_minute
  stick-table type string len 64 size 200k expire 2m store http_req_rate(60s)
backend per_day
  stick-table type string len 64 size 200k expire 1d store http_req_rate(1d)
frontend edge
  bind 127.0.0.1:${port}
  http-request set-var(txn.account) req.hdr(authorization),field(2,\\ ),map_str(${directory}/keys.map)
  http-request deny deny_status 401 unless { var(txn.account) -m found }
  http-request track-sc0 var(txn.account) table per_minute
  http-request track-sc1 var(txn.account) table per_day
  http-request set-var(txn.minute) sc_http_req_rate(0)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt ${LIMITS.minute} } || { sc_http_req_rate(1) gt ${LIMITS.day} }
  http-request del-header authorization
  http-request set-header x-consumer-id %[var(txn.account)]
  http-response set-header x-ratelimit-limit ${LIMITS.minute}
  http-response set-header x-ratelimit-remaining %[int(${LIMITS.minute}),sub(txn.minute)]
  default_backend app
backend app
  http-reuse always
  server one 127.0.0.1:${backendPort}
`;
}
