import { codeOf, importsOf, longFunctions, withoutComments } from "./source.ts";

/** Source by its path from the root of the repository: "src/core/key.ts" and its text. */
export type Sources = ReadonlyMap<string, string>;

/**
 * What each room may import, by how the path begins; "pets/" and the like are rooms under src.
 */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  "main.ts": ["cli/", "node:"],
  "start.ts": ["admin/", "config/", "core/", "gateway/", "stores/", "workers/", "log.ts", "node:"],
  "log.ts": ["pino", "node:"],
  core: ["core/", "node:crypto", "node:zlib"],
  config: ["config/", "core/", "node:", "zod", "yaml"],
  stores: ["stores/", "core/", "config/config.ts", "node:", "ioredis"],
  gateway: [
    ...["gateway/", "core/", "stores/store.ts", "config/config.ts", "log.ts", "node:"],
    ...["undici", "http-proxy-3", "rate-limiter-flexible"],
  ],
  admin: [
    ...["admin/", "core/", "stores/store.ts", "config/config.ts", "config/shown.ts"],
    ...["config/units.ts", "log.ts", "node:", "prom-client"],
  ],
  workers: [
    ...["workers/", "admin/", "config/", "gateway/serving.ts", "stores/", "log.ts", "start.ts"],
    "node:",
  ],
  cli: ["cli/", "core/", "stores/store.ts", "config/", "log.ts", "node:"],
  pets: ["pets/", "node:", "fastify"],
};

/** What a few files may import beyond their room: the verbs that run what others only speak to. */
const OPENERS: Readonly<Record<string, RegExp>> = {
  "start.ts": /^cli\/(serve|demo|worker)/,
  "workers/channel.ts": /^cli\/worker/,
  "workers/compile-cache.ts": /^cli\/worker/,
  "workers/messages.ts": /^cli\/worker/,
  "workers/told.ts": /^cli\/worker/,
  "stores/open.ts": /^cli\/(accounts-stored|keys-ring|demo)/,
  "pets/server.ts": /^cli\/pets/,
};

/** Each library has one door: the files that may name it. */
const LIBRARIES: Readonly<Record<string, RegExp>> = {
  undici: /^gateway\/(forward|upstreams|backend-answer)/,
  "http-proxy-3": /^gateway\/upgrade/,
  "rate-limiter-flexible": /^gateway\/failures/,
  ioredis: /^stores\/redis/,
  pino: /^log\.ts$/,
  zod: /^config\//,
  yaml: /^config\//,
  "prom-client": /^admin\/metrics/,
  fastify: /^pets\//,
};

/** core/ decides: it reads no clock, rolls no dice, waits for nothing and talks to no one. */
const IMPURE =
  /\bDate\.now\b|\bnew Date\(\)|\bDate\(\)|\bMath\.random\b|\bprocess\b|\bconsole\b|\bawait\b|\basync\b|\bset(?:Timeout|Interval|Immediate)\b|\bqueueMicrotask\b|\bperformance\b|\bfetch\(|\bPromise\b/;
const CORE_NAMES = ["hash", "crc32"];

const LINES_MAX = 250;
const FUNCTION_LINES_MAX = 60;
const VAGUE = /(?:^|\/)(?:utils?|helpers?|common|misc|shared|index|types)\.ts$/;

/** All that is wrong, as `PATH: what`; empty when the house is tidy. */
export function untidy(sources: Sources): string[] {
  const found: string[] = [];
  for (const [path, text] of sources) {
    const room = path.startsWith("src/") ? path.slice("src/".length) : undefined;
    const mistakes =
      room === undefined ? [] : [...strays(room, text), ...touchesProcess(room, text)];
    if (room?.startsWith("core/")) mistakes.push(...impurities(text));
    mistakes.push(...shape(path, text));
    for (const mistake of mistakes) found.push(`${path}: ${mistake}`);
  }
  return [...found, ...unreachable(sources), ...cycles(sources)];
}

function strays(file: string, text: string): string[] {
  const doors = DOORS[file.split("/")[0] ?? ""] ?? [];
  return importsOf(text).flatMap(({ path }) => {
    const target = path.startsWith(".") ? resolvePath(file, path) : path;
    const library = LIBRARIES[target.split("/")[0] ?? ""];
    if (!target.startsWith("node:") && !path.startsWith(".") && library?.test(file) !== true) {
      return [`imports ${path}, which has its door elsewhere`];
    }
    const allowed = OPENERS[target]?.test(file) || doors.some((door) => fits(target, door));
    return allowed ? [] : [`may not import ${path}`];
  });
}

function fits(target: string, allowed: string): boolean {
  return /[/:]$/.test(allowed) ? target.startsWith(allowed) : target === allowed;
}

/** Both relative: "core/key.ts" and "../log.ts" give "log.ts". */
function resolvePath(file: string, path: string): string {
  return new URL(path, `file:///${file}`).pathname.slice(1);
}

function touchesProcess(file: string, text: string): string[] {
  if (file === "main.ts") return [];
  const named = importsOf(text).some(({ path }) => path === "node:process");
  const used = /(?<![\w.$])process\s*(?:\.|\[|\?\.)/.test(codeOf(text));
  const local = /\b(?:const|let|readonly)?\s*\{?[^;\n]*\bprocess\b\s*(?::|,|\}|=>)/.test(
    codeOf(text),
  );
  return named || (used && !local) ? ["touches process: only main.ts may"] : [];
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
  const mistakes: string[] = [];
  const code = codeOf(text);
  const lines = text.trimEnd().split("\n").length;
  if (lines > LINES_MAX) mistakes.push(`has ${lines} lines: ${LINES_MAX} are the limit`);
  for (const { line, length } of longFunctions(text, FUNCTION_LINES_MAX)) {
    mistakes.push(`the function at line ${line} has ${length} lines: ${FUNCTION_LINES_MAX} fit`);
  }
  if (VAGUE.test(path)) mistakes.push("has a name that says nothing");
  if (/^export default\b/m.test(code)) mistakes.push("has a default export");
  if (/\b(?:TO[D]O|FIX[M]E|XX[X])\b/.test(text)) mistakes.push("has work left to do");
  if (/\.(?:skip|only|todo)\(/.test(code)) mistakes.push("leaves tests out");
  if (/["'`](?:file:\/\/)?[/](?:work|tmp|root|home)\//.test(withoutComments(text))) {
    mistakes.push("names a place on one machine");
  }
  return mistakes;
}

/** Where things start: the process, and the writer of what is generated from the code. */
const ROOTS = ["src/main.ts", "test/config/generate.ts"];

/** Every file under src is reached from a root: what is not is dead, or not wired. */
function unreachable(sources: Sources): string[] {
  const reached = new Set<string>();
  const visit = (path: string) => {
    if (reached.has(path) || !sources.has(path)) return;
    reached.add(path);
    for (const next of nextOf(sources, path)) visit(next);
  };
  for (const root of ROOTS) visit(root);
  const dead = [...sources.keys()].filter((path) => path.startsWith("src/") && !reached.has(path));
  return dead.map((path) => `${path}: is not reached from src/main.ts`);
}

/** Types may go round in a circle; code that loads may not. */
function cycles(sources: Sources): string[] {
  const found = new Set<string>();
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]) => {
    const from = trail.indexOf(path);
    if (from !== -1) found.add(trail.slice(from).sort().join(" <-> "));
    if (from !== -1 || done.has(path)) return;
    for (const next of nextOf(sources, path, { types: false })) visit(next, [...trail, path]);
    done.add(path);
  };
  for (const path of sources.keys()) visit(path, []);
  return [...found].map((circle) => `${circle}: import each other in a circle`);
}

function nextOf(sources: Sources, path: string, { types = true } = {}): string[] {
  const text = sources.get(path) ?? "";
  const code = types ? text : text.replaceAll(/^(?:import|export) type [^;]*;/gm, "");
  return importsOf(code)
    .filter((one) => one.path.startsWith("."))
    .map((one) => resolvePath(path, one.path));
}
