import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { startProgram } from "../support/gateway/processes.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";
import { type Authority, openAuthority } from "../support/wire/certificates.ts";
import { reach } from "../support/wire/reach.ts";
import { readExample, replaceAll } from "./example-file.ts";

/** A client that is not the proxy: another address of loopback. */
export const CLIENT = "127.0.0.2";

/** The ports of the proxy, of the two gateways and of their admin listeners. */
export type Ports = {
  readonly listen: number;
  readonly gateways: readonly [number, number];
  readonly admins: readonly [number, number];
};

export type ProxyExample = {
  readonly name: string;
  readonly file: string;
  /** The example with the ports and certificates of this test in place of those of a machine. */
  readonly places: (ports: Ports, folder: string) => Readonly<Record<string, string>>;
  readonly command: (file: string, folder: string) => readonly [string, ...string[]];
};

export const PROXIES: readonly ProxyExample[] = [
  {
    name: "nginx",
    file: "nginx.conf",
    places: ({ listen, gateways: [one, two] }, folder) => ({
      "listen 443": `listen 127.0.0.1:${listen}`,
      "127.0.0.1:8080": `127.0.0.1:${one}`,
      "127.0.0.1:8090": `127.0.0.1:${two}`,
      "/etc/nginx/tls": folder,
      "http {\n": `pid ${folder}/pid;\ndaemon off;\nmaster_process off;\nhttp {\n  access_log off;\n`,
    }),
    command: (file, folder) => ["nginx", "-p", folder, "-e", join(folder, "errors"), "-c", file],
  },
  {
    name: "haproxy",
    file: "haproxy.cfg",
    places: ({ listen, gateways: [one, two], admins }, folder) => ({
      "*:443": `127.0.0.1:${listen}`,
      "127.0.0.1:8080": `127.0.0.1:${one}`,
      "127.0.0.1:8090": `127.0.0.1:${two}`,
      "port 9090": `port ${admins[0]}`,
      "port 9091": `port ${admins[1]}`,
      "/etc/haproxy/tls": folder,
    }),
    command: (file) => ["haproxy", "-db", "-f", file],
  },
  {
    name: "caddy",
    file: "Caddyfile",
    places: ({ listen, gateways: [one, two] }, folder) => ({
      "api.example.com {\n": `{\n\tadmin off\n\tauto_https disable_redirects\n}\nhttps://api.example.com:${listen} {\n\ttls ${folder}/cert.pem ${folder}/key.pem\n`,
      "127.0.0.1:8080": `127.0.0.1:${one}`,
      "127.0.0.1:8090": `127.0.0.1:${two}`,
    }),
    command: (file) => ["caddy", "run", "--adapter", "caddyfile", "--config", file],
  },
];

export type RunningProxy = {
  readonly authority: Authority;
  /** Where clients connect, by TLS. */
  readonly port: number;
  close(): Promise<void>;
};

/** Starts the proxy of an example in front of two gateways, of which not both need to run. */
export async function openProxy(
  proxy: ProxyExample,
  ports: Omit<Ports, "listen">,
): Promise<RunningProxy> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-proxy-"));
  const authority = openAuthority();
  const { cert, key } = authority.issue(["DNS:api.example.com"]);
  await writeFile(join(folder, "cert.pem"), cert);
  await writeFile(join(folder, "key.pem"), key);
  await writeFile(join(folder, "api.pem"), `${cert}${key}`);
  const port = await freePort();
  const file = join(folder, proxy.file);
  const places = proxy.places({ ...ports, listen: port }, folder);
  await writeFile(file, replaceAll(readExample(`${proxy.name}/${proxy.file}`), places));
  const [program, ...args] = proxy.command(file, folder);
  const running = startProgram(program, args, { env: { HOME: folder } });
  await eventually(() => reach(port), { withinMs: 60_000 });
  return {
    authority,
    port,
    close: async () => {
      await running.kill();
      authority[Symbol.dispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export type Answered = {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
};

/** One request over HTTP/2, from an address that is not the proxy's. */
export async function ask(
  { port, authority }: Pick<RunningProxy, "port" | "authority">,
  fields: Readonly<Record<string, string>> = {},
): Promise<Answered> {
  const target: ConnectionOptions = { port, host: "127.0.0.1", ca: authority.ca };
  const more = { localAddress: CLIENT, servername: "api.example.com", ALPNProtocols: ["h2"] };
  const socket = connectTls({ ...target, ...more });
  const session = connectHttp2("https://api.example.com", { createConnection: () => socket });
  try {
    return await new Promise((resolve, reject) => {
      session.on("error", reject);
      const head = { ":authority": "api.example.com", ":path": "/v1/pets", ...fields };
      const stream = session.request({ ...head, authorization: `Bearer ${KEY}` });
      stream.on("error", reject);
      stream.on("response", (headers) => {
        resolve({ status: Number(headers[":status"]), headers });
        stream.close();
      });
      stream.end();
    });
  } finally {
    session.destroy();
  }
}
