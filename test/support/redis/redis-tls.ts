import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Authority } from "../wire/certificates.ts";

/** TLS for a redis-server of a test: for clients, replicas, Sentinels and the nodes of a Cluster. */
export type RedisTls = {
  /** The authority that a client trusts. */
  readonly ca: string;
  /** Options of a server that speaks TLS at this port, and nothing else. */
  args(port: number): readonly string[];
};

/** By a certificate of the authority, for 127.0.0.1. Clients need none of their own. */
export function redisTls(authority: Authority): RedisTls {
  const { cert, key } = authority.issue(["IP:127.0.0.1"]);
  const at = (name: string) => join(authority.folder, name);
  writeFileSync(at("redis.pem"), cert);
  writeFileSync(at("redis.key"), key);
  return {
    ca: authority.ca,
    args: (port) => [
      ...["--port", "0", "--tls-port", String(port), "--tls-auth-clients", "no"],
      ...["--tls-cert-file", at("redis.pem"), "--tls-key-file", at("redis.key")],
      ...["--tls-ca-cert-file", authority.caFile, "--tls-replication", "yes"],
    ],
  };
}
