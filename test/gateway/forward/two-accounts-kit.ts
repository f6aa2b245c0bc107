import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import {
  Agent,
  createServer,
  type IncomingMessage,
  request as requestPlain,
  type ServerResponse,
} from "node:http";
import {
  createServer as createTlsServer,
  request as requestTls,
  Agent as TlsAgent,
} from "node:https";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { setImmediate as turn } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { type SpawnedGateway, spawnGateway } from "../../support/gateway/served.ts";
import { type EngineNode, programOf } from "../../support/node-versions.ts";
import { openAuthority } from "../../support/wire/certificates.ts";

/** More than the system keeps of an answer by itself: the gateway has to hold some of it. */
const SLOW_BYTES = 8 * 1024 ** 2;
const SLOW_READERS = 5;
const STEP_BYTES = 384 * 1024;
/** In a read of its own such a piece is smaller than half of a buffer, and larger than most. */
const SMALL_WRITE_BYTES = 9_000;
const ECHOED_BYTES = [700, 9_000, 31_000, 60_000, 400_000];
const LINE_BYTES = 16;

/** Bytes that say in each line whose they are, and where they stand. */
function patternOf(account: string, bytes: number): Buffer {
  const lines = Math.ceil(bytes / LINE_BYTES);
  const line = (_: unknown, i: number) => `${account} ${String(i).padStart(13, "0")}\n`;
  return Buffer.from(Array.from({ length: lines }, line).join("")).subarray(0, bytes);
}

const PATTERNS = { A: patternOf("A", SLOW_BYTES), B: patternOf("B", SLOW_BYTES) } as const;
type Account = keyof typeof PATTERNS;
const ACCOUNTS: readonly Account[] = ["A", "B"];

/** Where bytes are not those of the pattern of an account. */
function firstForeign(account: Account, bytes: Buffer): string | undefined {
  const pattern = PATTERNS[account];
  if (bytes.equals(pattern.subarray(0, bytes.length))) return undefined;
  const at = bytes.findIndex((byte, i) => byte !== pattern[i]);
  const found = JSON.stringify(bytes.toString("latin1", at - (at % LINE_BYTES), at + LINE_BYTES));
  const foreign = bytes.reduce((sum, byte, i) => sum + (byte === pattern[i] ? 0 : 1), 0);
  return `${foreign} foreign bytes in ${bytes.length} of account ${account}, the first at ${at}: ${found}`;
}

/** How the clients, the gateway and the backend speak to each other. */
type Link = AsyncDisposable & {
  readonly origin: string;
  readonly seen: () => number;
  /** Keys of the environment of the gateway. */
  readonly environment: Readonly<Record<string, unknown>>;
  open(port: number): Socket;
  post(port: number, path: string, key: string, body: Buffer): Promise<IncomingMessage>;
};

/** The backend: it sends its pattern slowly, or echoes. */
async function answer(
  { url = "" }: IncomingMessage,
  request: Promise<Buffer>,
  response: ServerResponse,
) {
  if (url.includes("/slow/")) await writeSlowly(response, PATTERNS[url.endsWith("A") ? "A" : "B"]);
  else response.end(await request);
}

async function writeSlowly(response: ServerResponse, body: Buffer): Promise<void> {
  response.writeHead(200, { "Content-Length": body.length });
  for (let at = 0; at < body.length && !response.destroyed; at += SMALL_WRITE_BYTES) {
    if (!response.write(body.subarray(at, at + SMALL_WRITE_BYTES))) await once(response, "drain");
    await turn();
  }
  response.end();
}

async function openLink(speaks: "HTTP" | "TLS"): Promise<Link> {
  const isTls = speaks === "TLS";
  let seen = 0;
  const handler = (request: IncomingMessage, response: ServerResponse) => {
    seen += 1;
    answer(request, buffer(request), response).catch(() => response.destroy());
  };
  using authority = openAuthority();
  const { ca } = authority;
  const pair = authority.issue(["IP:127.0.0.1"]);
  const server = isTls ? createTlsServer(pair, handler) : createServer(handler);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const folder = await mkdtemp(join(tmpdir(), "tollgate-two-accounts-"));
  const file = (name: string) => join(folder, name);
  for (const [name, text] of Object.entries({ ...pair, ca })) await writeFile(file(name), text);
  const agent = isTls ? new TlsAgent({ keepAlive: true, ca }) : new Agent({ keepAlive: true });
  const at = (port: number) => ({ port, host: "127.0.0.1", ca });
  return {
    origin: `${isTls ? "https" : "http"}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen: () => seen,
    environment: isTls
      ? { tls: { cert: file("cert"), key: file("key") }, upstreamTls: { ca: file("ca") } }
      : {},
    open: (port) => (isTls ? connectTls(at(port)) : connect(at(port))),
    post: async (port, path, key, body) => {
      const headers = { authorization: `Bearer ${key}`, "content-length": body.length };
      const options = { ...at(port), path, headers, agent, method: "POST" };
      const request = isTls ? requestTls(options) : requestPlain(options);
      const [response] = await once(request.end(body), "response");
      return response as IncomingMessage;
    },
    [Symbol.asyncDispose]: async () => {
      agent.destroy();
      server.closeAllConnections();
      server.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A client that takes its answer in steps, and nothing in between. */
class SlowReader {
  readonly account: Account;
  readonly #socket: Socket;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #bytesMax = 0;
  #stepped: () => void = () => {};

  constructor(socket: Socket, account: Account, key: string) {
    this.account = account;
    this.#socket = socket;
    this.#socket.pause();
    this.#socket.write(
      `GET /v1/slow/${account} HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`,
    );
    this.#socket.on("error", () => {});
    this.#socket.on("data", (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#bytes += chunk.length;
      if (this.#bytes < this.#bytesMax) return;
      this.#socket.pause();
      this.#stepped();
    });
    this.#socket.once("close", () => this.#stepped());
  }

  get done(): boolean {
    return this.#socket.destroyed;
  }

  step(): Promise<void> {
    if (this.done) return Promise.resolve();
    this.#bytesMax = this.#bytes + STEP_BYTES;
    return new Promise((resolve) => {
      this.#stepped = resolve;
      this.#socket.resume();
    });
  }

  body(): Buffer {
    const bytes = Buffer.concat(this.#chunks);
    return bytes.subarray(bytes.indexOf("\r\n\r\n") + 4);
  }
}

async function keyOf(gateway: SpawnedGateway, account: Account): Promise<string> {
  const response = await fetch(`${gateway.adminUrl}/api/keys`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ environment: "production", plan: "vectors", account }),
  });
  assert.equal(response.status, 201, await response.clone().text());
  return ((await response.json()) as { key: string }).key;
}

/** Claims of a gateway on each of these Nodes, by HTTP and by TLS. */
export function claimsOwnBytes(nodes: readonly EngineNode[]): void {
  const cases = nodes.flatMap((node) => {
    return (["HTTP", "TLS"] as const).map((speaks) => ({ ...node, speaks }));
  });
  describe("two accounts, some of whose clients read slowly", () => {
    it.each(cases)(
      "get the bytes of their own alone by $speaks, on Node $version",
      async (node) => {
        await using link = await openLink(node.speaks);
        await using gateway = await spawnGateway({
          node: programOf(node),
          upstreams: [link.origin],
          api: null,
          environment: link.environment,
          // This process is the backend and all clients: beside other work it is late for a handshake.
          limits: { connectTimeout: "1m", headersTimeout: "1m", requestTimeout: "2m" },
        });
        const keys = { A: await keyOf(gateway, "A"), B: await keyOf(gateway, "B") };
        const echo = async (account: Account, bytes: number) => {
          const body = PATTERNS[account].subarray(0, bytes);
          const response = await link.post(
            gateway.port,
            `/v1/echo/${account}`,
            keys[account],
            body,
          );
          const echoed = await buffer(response);
          assert.deepEqual([response.statusCode, echoed.length], [200, bytes]);
          assert.equal(firstForeign(account, echoed), undefined);
        };

        const readers = ACCOUNTS.flatMap((account) =>
          Array.from({ length: SLOW_READERS }, () => {
            return new SlowReader(link.open(gateway.port), account, keys[account]);
          }),
        );
        let rounds = 0;
        while (readers.some(({ done }) => !done)) {
          rounds += 1;
          await Promise.all([
            ...ECHOED_BYTES.flatMap((bytes) => ACCOUNTS.map((account) => echo(account, bytes))),
            ...readers.map((reader) => reader.step()),
          ]);
        }
        for (const reader of each(readers)) {
          const body = reader.body();
          assert.equal(body.length, SLOW_BYTES);
          assert.equal(firstForeign(reader.account, body), undefined);
        }
        const asked = rounds * ECHOED_BYTES.length + SLOW_READERS;
        for (const account of ACCOUNTS)
          assert.equal(await gateway.counted(account), asked, account);
        assert.equal(link.seen(), ACCOUNTS.length * asked);
      },
    );
  });
}
