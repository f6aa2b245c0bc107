import { codeOf, importsOf, longFunctions, withoutComments } from "./source.ts";

/** Source by its path from the root of the repository: "src/main.ts" and its text. */
export type Sources = ReadonlyMap<string, string>;

/**
 * The rooms in their order: a file imports from its own room and from rooms that stand earlier,
 * types included. The file at the top of a room is its door.
 */
const ROOMS: readonly string[] = [
  "base",
  ...["core", "core/quota", "core/keys", "core/http", "core/meters"],
  ...["config/file", "config/schema", "config", "config/description"],
  ...["config/draft", "config/load", "config/queries"],
  ...["http1/parse", "http1/write", "http1/client", "http1/server"],
  ...["telemetry", "telemetry/log", "telemetry/metrics", "telemetry/history", "telemetry/tracing"],
  ...["stores/files", "stores/redis", "stores/redis/connection", "stores/redis/engines"],
  ...["stores/quotas", "stores/quotas/memory", "stores/quotas/batch", "stores/quotas/redis"],
  ...["stores/quotas/redis/changes", "stores/quotas/redis/store", "stores/quotas/outage"],
  ...["stores/keys", "stores/keys/records", "stores/keys/file", "stores/keys/redis"],
  ...["stores/queries", "stores"],
  ...["gateway/runtime", "gateway/client", "gateway/upstreams", "gateway/exchange"],
  ...["gateway/stages", "gateway/forward", "gateway/tunnel", "gateway", "gateway/listen"],
  ...["admin/http", "admin/openapi", "admin/api", "admin"],
  ...["server/events", "server/process", "server/workers", "server"],
  ...["cli/framework", "cli/access", "cli/logs"],
  ...["cli/prove/trial", "cli/prove/judge", "cli/prove", "cli/verbs", "cli"],
];

/** main.ts knows the command line, and how the process shows itself to the rest. */
const MAIN_IMPORTS = /^(?:cli\/|server\/process\/process-context\.ts$)/;

/** It keeps a warning of Node off stderr, in whatever process it is loaded. */
const WARNINGS = "base/sqlite.ts";

/** Rooms that stand for themselves: they import nothing of the others. */
const GUESTS: ReadonlySet<string> = new Set(["http1", "pets"]);

/**
 * Files that only the room around them, and those named, may import: the rest goes through its
 * door.
 */
const CLOSED: readonly (readonly [inside: RegExp, importers: RegExp])[] = [
  [
    /^stores\/(?!open-stores\.ts|queries\/|quotas\/(?:quota-store|admin-changes|account-ref|activity-store)\.ts|keys\/key-store\.ts|keys\/file\/(?:import-lines|import-records|export-records|record-patch)\.ts)/,
    /^stores\//,
  ],
  [
    /^stores\/open-stores\.ts$/,
    /^(?:server\/|cli\/access\/|cli\/prove\/(?:proof|judge\/proof-report)\.ts|cli\/verbs\/demo\.ts)/,
  ],
  [/^gateway\//, /^(?:gateway|server)\//],
  [/^admin\//, /^(?:admin|server)\//],
  [/^server\/(?!process\/)/, /^(?:server\/|cli\/verbs\/|cli\/run\.ts)/],
  [/^pets\//, /^(?:pets\/|cli\/verbs\/pets\.ts)/],
];

/** Each library has one door: the files that may name it. */
const LIBRARIES: Readonly<Record<string, RegExp>> = {
  undici: /^gateway\/upstreams\/health-check/,
  "http-proxy-3": /^gateway\/tunnel\//,
  "rate-limiter-flexible": /^gateway\/client\/auth-failure-limiter/,
  ioredis: /^stores\/redis\//,
  "@opentelemetry/api": /^telemetry\/tracing\/otlp/,
  "@opentelemetry/exporter-metrics-otlp-http": /^telemetry\/tracing\/otlp\.ts$/,
  "@opentelemetry/exporter-trace-otlp-http": /^telemetry\/tracing\/otlp\.ts$/,
  "@opentelemetry/resources": /^telemetry\/tracing\/otlp\.ts$/,
  "@opentelemetry/sdk-metrics": /^telemetry\/tracing\/otlp\.ts$/,
  "@opentelemetry/sdk-trace": /^telemetry\/tracing\/otlp/,
  "@opentelemetry/semantic-conventions": /^telemetry\/tracing\/otlp/,
  pino: /^telemetry\/log\/log\.ts$/,
  zod: /^config\//,
  yaml: /^config\/file\//,
  "prom-client": /^admin\/prometheus/,
  fastify: /^pets\//,
};

/** The parts of Node that core/ and wire/ may use; everybody else may use all of it. */
const NODE_PARTS: Readonly<Record<string, readonly string[]>> = {
  core: ["node:crypto", "node:net", "node:zlib"],
  http1: ["node:net", "node:tls", "node:buffer"],
};

/** An import of it loads much that nobody uses; types cost nothing. */
const REQUIRED_ONLY = /^\s*import\s(?!type\s)[^"';]*\sfrom\s"node:http"/m;
const REQUIRES_HTTP = "base/node-http.ts";

/** core/ decides: it reads no clock, rolls no dice, waits for nothing and talks to no one. */
const IMPURE =
  /\bDate\.now\b|\bnew Date\(\)|\bDate\(\)|\bMath\.random\b|\bprocess\b|\bconsole\b|\bawait\b|\basync\b|\bset(?:Timeout|Interval|Immediate)\b|\bqueueMicrotask\b|\bperformance\b|\bfetch\(|\bPromise\b/;
const CORE_NAMES = ["hash", "crc32", "isIP", "isIPv4", "isIPv6", "BlockList"];

const LINES_MAX = 400;
const FUNCTION_LINES_MAX = 60;
const VAGUE = /(?:^|\/)(?:utils?|helpers?|common|misc|shared|index|types)\.ts$/;

/** All that is wrong, as `PATH: what`; empty when the house is tidy. */
export function layoutViolations(sources: Sources): string[] {
  const found: string[] = [];
  for (const [path, text] of sources) {
    const file = path.startsWith("src/") ? path.slice("src/".length) : undefined;
    const mistakes: string[] = [];
    if (file?.endsWith(".ts")) {
      mistakes.push(...strays(file, text), ...touchesProcess(file, text), ...homeless(file));
    }
    if (file?.endsWith(".ts") && REQUIRED_ONLY.test(withoutComments(text))) {
      mistakes.push(`imports node:http: only types; the rest is in ${REQUIRES_HTTP}`);
    }
    if (file?.startsWith("core/")) mistakes.push(...impurities(text));
    if (file !== "gateway/exchange/exchange.ts") mistakes.push(...hiddenChanges(text));
    mistakes.push(...shape(path, text));
    for (const mistake of mistakes) found.push(`${path}: ${mistake}`);
  }
  return [...found, ...unreachable(sources), ...cycles(sources)];
}

function strays(file: string, text: string): string[] {
  return importsOf(text).flatMap(({ path }) => {
    if (path.startsWith(".")) return mayImport(file, resolvePath(file, path)) ?? [];
    const house = file.split("/")[0] ?? "";
    if (path.startsWith("node:")) {
      return NODE_PARTS[house]?.includes(path) === false ? [`may not import ${path}`] : [];
    }
    const name = path.startsWith("@") ? path.split("/").slice(0, 2).join("/") : path.split("/")[0];
    return LIBRARIES[name ?? ""]?.test(file)
      ? []
      : [`imports ${path}, which has its door elsewhere`];
  });
}

/** The mistake of an import within the house, if it is one. Both are relative to src. */
function mayImport(file: string, target: string): string | undefined {
  const wrong = `may not import ${target}`;
  const [from, to] = [roomOf(file), roomOf(target)];
  if (from === to) return undefined;
  if (from === "") return MAIN_IMPORTS.test(target) ? undefined : wrong;
  const [fromHouse, toHouse] = [topFolder(from), topFolder(to)];
  if (GUESTS.has(fromHouse) && fromHouse !== toHouse) return wrong;
  const closed = CLOSED.find(([inside, importers]) => inside.test(target) && !importers.test(file));
  if (closed !== undefined) return `${wrong}: it is behind a door`;
  if (GUESTS.has(toHouse) && fromHouse !== toHouse) return undefined;
  if (ROOMS.indexOf(to) > ROOMS.indexOf(from)) return `${wrong}: ${to} stands after ${from}`;
  return undefined;
}

/** "core/quota/decide.ts" is in "core/quota"; main.ts is in none. */
function roomOf(file: string): string {
  return file.slice(0, Math.max(0, file.lastIndexOf("/")));
}

/** "core/quota" is in "core". */
function topFolder(room: string): string {
  return room.split("/")[0] as string;
}

/** Both relative: "cli/run.ts" and "../main.ts" give "main.ts". */
function resolvePath(file: string, path: string): string {
  return new URL(path, `file:///${file}`).pathname.slice(1);
}

/** An exchange changes by its own methods alone, so that its life can be read in one file. */
function hiddenChanges(text: string): string[] {
  const written = /\b(?:exchange|this\.#exchange)\.\w+ (?:\?\?|\|\||[+-])?= /.exec(codeOf(text));
  return written === null ? [] : [`changes an exchange: ${written[0].trim()}`];
}

function touchesProcess(file: string, text: string): string[] {
  if (file === "main.ts" || file === WARNINGS) return [];
  const named = importsOf(text).some(({ path }) => path === "node:process");
  const used = /(?<![\w.$])process\s*(?:\.|\[|\?\.)/.test(codeOf(text));
  const local = /\b(?:const|let|readonly)?\s*\{?[^;\n]*\bprocess\b\s*(?::|,|\}|=>)/.test(
    codeOf(text),
  );
  return named || (used && !local) ? ["touches process: only main.ts may"] : [];
}

function homeless(file: string): string[] {
  const room = roomOf(file);
  const known = room === "" ? file === "main.ts" : room === "pets" || ROOMS.includes(room);
  return known ? [] : ["is in a room that the order of the rooms does not have"];
}

function impurities(text: string): string[] {
  const [word] = IMPURE.exec(codeOf(text)) ?? [];
  const names = importsOf(text)
    .filter(({ path }) => path.startsWith("node:"))
    .flatMap((one) => one.names.filter((name) => !CORE_NAMES.includes(name)));
  const mistakes = names.map((name) => `is impure: imports ${name}`);
  return word === undefined ? mistakes : [...mistakes, `is impure: ${word}`];
}

/** Length, names, and what a person left behind. */
function shape(path: string, text: string): string[] {
  if (path.endsWith(".lua")) return tooLong(text);
  const mistakes = tooLong(text);
  const code = codeOf(text);
  for (const { line, length } of longFunctions(text, FUNCTION_LINES_MAX)) {
    mistakes.push(`the function at line ${line} has ${length} lines: ${FUNCTION_LINES_MAX} fit`);
  }
  if (VAGUE.test(path)) mistakes.push("has a name that says nothing");
  // Tools take their configuration from a default export.
  if (/^export default\b/m.test(code) && !path.endsWith(".config.ts")) {
    mistakes.push("has a default export");
  }
  if (/\b(?:TO[D]O|FIX[M]E|XX[X])\b/.test(text)) mistakes.push("has work left to do");
  if (/\.(?:skip|only|todo)\(/.test(code)) mistakes.push("leaves tests out");
  if (/["'`](?:file:\/\/)?[/](?:work|tmp|root|home)\//.test(withoutComments(text))) {
    mistakes.push("names a place on one machine");
  }
  return mistakes;
}

function tooLong(text: string): string[] {
  const lines = text.trimEnd().split("\n").length;
  return lines > LINES_MAX ? [`has ${lines} lines: ${LINES_MAX} are the limit`] : [];
}

/** Where things start: process, library, the thread of a reload, and the writer of what is generated. */
const ROOTS = [
  ...["src/main.ts", "src/server/embed.ts", "src/config/load/load-thread.ts"],
  "scripts/generate.ts",
];

/** Every file under src is reached from a root: what is not is dead, or not wired. */
function unreachable(sources: Sources): string[] {
  const reached = new Set<string>();
  const visit = (path: string) => {
    if (reached.has(path) || !sources.has(path)) return;
    reached.add(path);
    for (const next of nextOf(sources, path)) visit(next);
  };
  for (const root of ROOTS) visit(root);
  const dead = [...sources.keys()].filter(
    (path) => path.startsWith("src/") && path.endsWith(".ts") && !reached.has(path),
  );
  return dead.map((path) => `${path}: is not reached from src/main.ts`);
}

/** Files that import each other, directly or not, types included. */
function cycles(sources: Sources): string[] {
  const found = new Set<string>();
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]) => {
    const from = trail.indexOf(path);
    if (from !== -1) found.add(trail.slice(from).sort().join(" <-> "));
    if (from !== -1 || done.has(path)) return;
    for (const next of nextOf(sources, path)) visit(next, [...trail, path]);
    done.add(path);
  };
  for (const path of sources.keys()) visit(path, []);
  return [...found].map((circle) => `${circle}: import each other in a circle`);
}

function nextOf(sources: Sources, path: string): string[] {
  return importsOf(sources.get(path) ?? "")
    .filter((one) => one.path.startsWith("."))
    .map((one) => resolvePath(path, one.path));
}
