import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Fastify from "fastify";
import {
  createApp,
  createRouter,
  eventHandler,
  type H3Event,
  serveStatic,
  toNodeListener,
} from "h3";
import { type RunningProcess, startProgram } from "../support/gateway/processes.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";
import { reach } from "../support/wire/reach.ts";

/** The operations that every router here has, by the name that it answers with. */
export const TEMPLATES = {
  file: "/v1/files/{name}",
  secret: "/v1/files/secret",
  draft: "/v1/files/a-b_c~d",
  hens: "/v1/files/h%C3%BChner",
  json: "/v1/files/{name}.json",
  list: "/v1/files/list.json",
  user: "/v1/users/{id}",
  all: "/v1/users/all",
  keys: "/v1/users/{id}/keys",
} as const;
export type OperationName = keyof typeof TEMPLATES;

/** A router with those operations: the body of a 200 is the name of the one that it found. */
export type RealRouter = AsyncDisposable & { readonly origin: string };

/** Fastify, by default or told to read paths loosely. */
export async function startFastify(isLoose: boolean): Promise<RealRouter> {
  const loose = { caseSensitive: false, ignoreTrailingSlash: true, useSemicolonDelimiter: true };
  const app = Fastify({ routerOptions: isLoose ? loose : {} });
  for (const [name, template] of Object.entries(TEMPLATES)) {
    const path = decodeURIComponent(template).replace(/\{(\w+)\}/g, ":$1");
    app.get(path, () => name);
  }
  const origin = await app.listen({ port: 0, host: "127.0.0.1" });
  return { origin, [Symbol.asyncDispose]: () => app.close() };
}

/** H3 as Nuxt and Nitro serve with it, which knows no text beside a parameter. One path is a file. */
export async function startH3(): Promise<RealRouter & { readonly seen: readonly unknown[] }> {
  const router = createRouter();
  for (const [name, template] of Object.entries(TEMPLATES)) {
    if (name === "json") continue;
    const path = decodeURIComponent(template).replace(/\{(\w+)\}/g, ":$1");
    const isFile = name === "file";
    router.get(
      path,
      eventHandler(({ context }) =>
        isFile && /.\.json$/.test(context.params?.name ?? "") ? "json" : name,
      ),
    );
  }
  const files = eventHandler(async (event) => {
    const getMeta = (path: string) => (path === TEMPLATES.secret ? {} : undefined);
    await serveStatic(event, { getMeta, getContents: () => "secret", fallthrough: true });
  });
  const seen: unknown[] = [];
  const onRequest = (event: H3Event) => void seen.push(event.path);
  const server = createServer(toNodeListener(createApp({ onRequest }).use(files).use(router)));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const close = async () => {
    server.closeAllConnections();
    await once(server.close(), "close");
  };
  const { port } = server.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, seen, [Symbol.asyncDispose]: close };
}

/** A mux of Go knows literal paths and subtrees; the rest of a subtree is told apart by hand. */
const GO = `package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

func answer(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, name) }
}

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/files/secret", answer("secret"))
	mux.HandleFunc("/v1/files/a-b_c~d", answer("draft"))
	mux.HandleFunc("/v1/files/h\\u00fchner", answer("hens"))
	mux.HandleFunc("/v1/files/list.json", answer("list"))
	mux.HandleFunc("/v1/users/all", answer("all"))
	mux.HandleFunc("/v1/files/", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/v1/files/")
		switch {
		case name == "" || strings.Contains(name, "/"):
			http.NotFound(w, r)
		case strings.HasSuffix(name, ".json") && name != ".json":
			fmt.Fprint(w, "json")
		default:
			fmt.Fprint(w, "file")
		}
	})
	mux.HandleFunc("/v1/users/", func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/users/"), "/")
		switch {
		case parts[0] != "" && len(parts) == 1:
			fmt.Fprint(w, "user")
		case parts[0] != "" && len(parts) == 2 && parts[1] == "keys":
			fmt.Fprint(w, "keys")
		default:
			http.NotFound(w, r)
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + listener.Addr().String())
	http.Serve(listener, mux)
}
`;

/** The `net/http` of Go. */
export async function startGo(): Promise<RealRouter> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-go-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  await writeFile(join(folder, "main.go"), GO);
  const env = { GOTOOLCHAIN: "local", GOFLAGS: "-mod=mod", CGO_ENABLED: "0" };
  const built = await startProgram("go", ["build", "-o", "router", "main.go"], {
    cwd: folder,
    env,
  }).exited;
  if (built.code !== 0) throw new Error(`go build: ${built.stderr}`);
  const running = startProgram(join(folder, "router"), []);
  await running.says("http://");
  return routerOf(running, running.stdout().trim(), remove);
}

/** nginx, whose locations are compared exactly, or with `~*`. */
export async function startNginx(isLoose: boolean): Promise<RealRouter> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-nginx-"));
  const port = await freePort();
  await writeFile(join(folder, "nginx.conf"), nginxConfig(port, folder, isLoose));
  const args = ["-p", folder, "-e", join(folder, "errors"), "-c", join(folder, "nginx.conf")];
  const running = startProgram("nginx", args, { env: { HOME: folder } });
  await eventually(() => reach(port), { withinMs: 60_000 });
  const remove = () => rm(folder, { recursive: true, force: true });
  return routerOf(running, `http://127.0.0.1:${port}`, remove);
}

function nginxConfig(port: number, folder: string, isLoose: boolean): string {
  const names = Object.keys(TEMPLATES) as OperationName[];
  // Regular expressions are tried in the order in which they stand: the most general comes last.
  const last: readonly OperationName[] = ["json", "file", "user"];
  const locations = [...names.filter((name) => !last.includes(name)), ...last].map((name) => {
    const pattern = decodeURIComponent(TEMPLATES[name])
      .replace(/[.~]/g, "\\$&")
      .replace(/\{\w+\}/g, "[^/]+");
    return `location ${isLoose ? "~*" : "~"} "^${pattern}${isLoose ? "/?" : ""}$" { return 200 "${name}"; }`;
  });
  return `pid ${folder}/pid;
daemon off;
master_process off;
events {}
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port};
    ${locations.join("\n    ")}
    location / { return 404; }
  }
}
`;
}

function routerOf(running: RunningProcess, origin: string, remove: () => Promise<void>) {
  const close = async () => {
    await running.kill();
    await remove();
  };
  return { origin, [Symbol.asyncDispose]: close };
}
