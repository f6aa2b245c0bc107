import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTestUpstream, type TestUpstream } from "../support/gateway/backend.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";
import { caseOf } from "./mutate.ts";
import { openTarget, sendBytes } from "./target.ts";

type Peer = AsyncDisposable & {
  readonly name: string;
  readonly port: number;
  readonly backend: TestUpstream;
};

type Program = {
  readonly name: string;
  config(ports: { readonly listen: number; readonly backend: number }, folder: string): string;
  args(file: string, folder: string): readonly string[];
};

const PROGRAMS: readonly Program[] = [
  {
    name: "nginx",
    config: ({ listen, backend }, folder) => `daemon off; master_process off; pid ${folder}/pid;
error_log /dev/null; worker_rlimit_nofile 4096; events { worker_connections 1024; }
http { access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
upstream up { server 127.0.0.1:${backend}; keepalive 16; }
server { listen 127.0.0.1:${listen}; location / { proxy_pass http://up;
proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; } } }
`,
    args: (file, folder) => ["-p", folder, "-c", file],
  },
  {
    name: "haproxy",
    config: ({ listen, backend }) => `defaults
  mode http
  timeout connect 1s
  timeout client 2s
  timeout server 2s
  http-reuse always
listen all
  bind 127.0.0.1:${listen}
  server up 127.0.0.1:${backend}
`,
    args: (file) => ["-db", "-f", file],
  },
];

/** The result of one side for a case: the request lines at its backend. */
type Passed = readonly string[];

/**
 * Sends the same cases to the gateway and to each of nginx and HAProxy that is installed, and tells,
 * line by line, where another number of requests or other requests reached the backend. They check
 * no keys, so that what the gateway refuses for its key or its route is no difference.
 */
export async function* compareWithPeers(options: {
  readonly cases: number;
  readonly seed: number;
}): AsyncGenerator<string> {
  const installed = PROGRAMS.filter(({ name }) => spawnSync(name, ["-v"]).error === undefined);
  if (installed.length === 0) yield "neither nginx nor haproxy is installed";
  for (const program of installed) yield* compareWith(program, options);
}

const SHOWN_MAX = 12;
/** A refusal that no proxy without keys and routes could share. */
const OURS_ALONE = new Set([401, 404, 405, 410, 429]);

async function* compareWith(
  program: Program,
  { cases, seed }: { readonly cases: number; readonly seed: number },
): AsyncGenerator<string> {
  await using peer = await openPeer(program);
  await using target = await openTarget();
  const differences = new Map<string, number>();
  for (let number = 0; number < cases; number++) {
    const one = caseOf(seed, number);
    const from = target.backend.seen.length;
    const ours = await target.send(one);
    const us = target.backend.seen
      .slice(from)
      .map(({ method, target: path }) => `${method} ${path}`);
    const them = await passedBy(peer, one.pieces);
    if (us.join() === them.join() || ours.statuses.some((status) => OURS_ALONE.has(status)))
      continue;
    const kind = kindOf(us, them);
    const count = (differences.get(kind) ?? 0) + 1;
    differences.set(kind, count);
    if (count > SHOWN_MAX) continue;
    const what = `case ${number}, ${kind}: ${ours.statuses.join(" ")} here`;
    yield `${what}; here ${JSON.stringify(us)}, ${peer.name} ${JSON.stringify(them)}
  ${Buffer.concat(one.pieces).toString("base64")}`;
  }
  const summary = [...differences].map(([kind, count]) => `${kind}: ${count}`).join(", ");
  yield `${peer.name}: cases ${cases}, seed ${seed}, differences: ${summary || "none"}`;
}

function kindOf(us: Passed, them: Passed): string {
  if (us.length < them.length) return "fewer here";
  return us.length > them.length ? "more here" : "another request";
}

async function passedBy({ port, backend }: Peer, pieces: readonly Buffer[]): Promise<Passed> {
  const from = backend.seen.length;
  await sendBytes(port, { pieces, halfClose: false });
  return backend.seen.slice(from).map(({ method, target }) => `${method} ${target}`);
}

async function openPeer({ name, config, args }: Program): Promise<Peer> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-peer-"));
  const backend = await startTestUpstream();
  const port = await freePort();
  const file = join(folder, "peer.conf");
  await writeFile(file, config({ listen: port, backend: backend.port }, folder));
  const child: ChildProcess = spawn(name, args(file, folder), { stdio: "ignore" });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  await eventually(() => accepts(port));
  return {
    name,
    port,
    backend,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await ended;
      await backend.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}
