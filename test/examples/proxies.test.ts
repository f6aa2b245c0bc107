import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, it } from "vitest";
import { parse } from "yaml";
import { isOnPath } from "../../scripts/needs.ts";
import { startTestUpstream, type TestUpstream } from "../support/gateway/backend.ts";
import { startProgram } from "../support/gateway/processes.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { type Authority, openAuthority } from "../support/wire/certificates.ts";
import { readExample, replaceAll } from "./example-file.ts";

/** A client that is not the proxy: another address of loopback. */
const CLIENT = "127.0.0.2";

type Ports = { readonly listen: number; readonly gateway: number; readonly admin: number };

type Proxy = {
  readonly name: string;
  readonly file: string;
  /** The example with the ports and certificates of this test in place of those of a machine. */
  readonly places: (ports: Ports, folder: string) => Readonly<Record<string, string>>;
  readonly command: (file: string, folder: string) => readonly [string, ...string[]];
};

const PROXIES: readonly Proxy[] = [
  {
    name: "nginx",
    file: "nginx.conf",
    places: ({ listen, gateway }, folder) => ({
      "listen 443": `listen 127.0.0.1:${listen}`,
      "127.0.0.1:8080": `127.0.0.1:${gateway}`,
      "/etc/nginx/tls": folder,
      "http {\n": `pid ${folder}/pid;\ndaemon off;\nmaster_process off;\nhttp {\n  access_log off;\n`,
    }),
    command: (file, folder) => ["nginx", "-p", folder, "-e", join(folder, "errors"), "-c", file],
  },
  {
    name: "haproxy",
    file: "haproxy.cfg",
    places: ({ listen, gateway, admin }, folder) => ({
      "*:443": `127.0.0.1:${listen}`,
      "127.0.0.1:8080": `127.0.0.1:${gateway}`,
      "port 9090": `port ${admin}`,
      "/etc/haproxy/tls": folder,
    }),
    command: (file) => ["haproxy", "-db", "-f", file],
  },
  {
    name: "caddy",
    file: "Caddyfile",
    places: ({ listen, gateway }, folder) => ({
      "api.example.com {\n": `{\n\tadmin off\n\tauto_https disable_redirects\n}\nhttps://api.example.com:${listen} {\n\ttls ${folder}/cert.pem ${folder}/key.pem\n`,
      "127.0.0.1:8080": `127.0.0.1:${gateway}`,
    }),
    command: (file) => ["caddy", "run", "--adapter", "caddyfile", "--config", file],
  },
];

type House = {
  readonly authority: Authority;
  readonly backend: TestUpstream;
  readonly served: SpawnedGateway;
  readonly port: number;
  close(): Promise<void>;
};

async function open(proxy: Proxy): Promise<House> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-proxy-"));
  const authority = openAuthority();
  const { cert, key } = authority.issue(["DNS:api.example.com"]);
  await writeFile(join(folder, "cert.pem"), cert);
  await writeFile(join(folder, "key.pem"), key);
  await writeFile(join(folder, "api.pem"), `${cert}${key}`);
  const backend = await startTestUpstream();
  const { trustedProxies } = parse(readExample(`${proxy.name}/tollgate.yaml`));
  const served = await spawnGateway({ upstreams: [backend.origin], config: { trustedProxies } });
  const port = await freePort();
  const admin = Number(new URL(served.adminUrl).port);
  const file = join(folder, proxy.file);
  const places = proxy.places({ listen: port, gateway: served.port, admin }, folder);
  await writeFile(file, replaceAll(readExample(`${proxy.name}/${proxy.file}`), places));
  const [program, ...args] = proxy.command(file, folder);
  const running = startProgram(program, args, { env: { HOME: folder } });
  const close = async () => {
    await running.kill();
    await served[Symbol.asyncDispose]();
    await backend[Symbol.asyncDispose]();
    authority[Symbol.dispose]();
    await rm(folder, { recursive: true, force: true });
  };
  const house = { authority, backend, served, port, close };
  await eventually(() => reach(port), { withinMs: 60_000 });
  // HAProxy sends nothing before its first check of /readyz has passed.
  await eventually(async () => assert.equal((await ask(house)).status, 200), { withinMs: 60_000 });
  return house;
}

type Answered = { readonly status: number; readonly headers: Readonly<Record<string, unknown>> };

/** One request over HTTP/2, from an address that is not the proxy's. */
async function ask(
  { port, authority }: Pick<House, "port" | "authority">,
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

function lastField({ backend }: House, name: string): string | undefined {
  const { rawHeaders = [] } = backend.seen.at(-1) ?? {};
  const at = rawHeaders.findIndex((each, i) => i % 2 === 0 && each.toLowerCase() === name);
  return rawHeaders[at + 1];
}

for (const proxy of PROXIES) {
  describe.skipIf(!isOnPath(proxy.name))(`behind ${proxy.name}`, () => {
    let house: House;
    beforeAll(async () => {
      house = await open(proxy);
    });
    afterAll(() => house?.close());

    it("the backend learns the client's address, scheme and host, whatever the client claims", async () => {
      const { status } = await ask(house, {
        "x-forwarded-for": "203.0.113.9",
        "x-forwarded-proto": "http",
        "x-forwarded-host": "evil.example",
      });
      assert.equal(status, 200);
      assert.equal(lastField(house, "x-forwarded-for")?.split(", ")[0], CLIENT);
      assert.equal(lastField(house, "x-forwarded-proto"), "https");
      assert.equal(lastField(house, "x-forwarded-host"), "api.example.com");
    });

    it("the client sees the fields of the gateway as they are", async () => {
      const { headers } = await ask(house);
      const names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
      for (const name of names) assert.match(String(headers[name]), /^\d+$/, name);
    });

    it("each request is forwarded and charged once", async () => {
      const { backend, served } = house;
      const before = backend.seen.length;
      const counted = await served.counted();
      for (let i = 0; i < 10; i++) assert.equal((await ask(house)).status, 200);
      assert.equal(backend.seen.length - before, 10);
      assert.equal((await served.counted()) - counted, 10);
    });
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

function reach(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp(port, "127.0.0.1");
    socket.once("error", reject).once("connect", () => {
      socket.destroy();
      resolve();
    });
  });
}
