import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../src/cli/run.ts";
import type { ProcessControl } from "../../src/server/process/process-context.ts";
import { PETS } from "../support/gateway/pets-routes.ts";
import { freePort } from "../support/redis/redis.ts";

const MAIN = join(import.meta.dirname, "../../src/main.ts");

export type Said = { readonly status: number; readonly out: string; readonly err: string };

export type RunVerbOptions = {
  readonly env?: Readonly<Record<string, string>>;
  readonly isTty?: boolean;
  /** Whether stderr is a terminal, where progress is shown. */
  readonly isErrTty?: boolean;
  readonly nowMs?: number;
  /** A clock of its own, in place of `nowMs`. */
  readonly now?: () => number;
  /** The text in stdin. */
  readonly stdin?: string | Buffer;
  /** Called with each text for stderr. */
  readonly onErr?: (text: string) => void;
  /** Somebody sits there and answers every question so, or each of several in order. */
  readonly answer?: string | readonly string[];
  /** Is told each question, and may do something before it is answered. */
  readonly onQuestion?: (question: string) => void | Promise<void>;
};

/** One verb in this process, with an outside world of its own: for the verbs that end by themselves. */
export async function runVerb(
  args: readonly string[],
  {
    env = {},
    isTty = false,
    isErrTty = false,
    nowMs,
    now,
    stdin = "",
    answer,
    onQuestion = () => {},
    onErr = () => {},
  }: RunVerbOptions = {},
): Promise<Said> {
  let out = "";
  let err = "";
  const answers = typeof answer === "object" ? [...answer] : [];
  const terminal = {
    env,
    isTty,
    isErrTty,
    now: now ?? (nowMs === undefined ? Date.now : () => nowMs),
    out: (text: string) => {
      out += text;
    },
    err: (text: string) => {
      err += text;
      onErr(text);
    },
    readIn: () => Promise.resolve(Buffer.from(stdin)),
    ask:
      answer === undefined
        ? undefined
        : async (question: string) => {
            await onQuestion(question);
            return answers.shift() ?? String(answer);
          },
    process: NO_PROCESS,
  };
  const status = await run(args, terminal, "9.8.7");
  return { status, out, err };
}

const NO_PROCESS: ProcessControl = {
  self: [process.execPath, MAIN],
  v8: process.versions.v8,
  underNpm: false,
  onEnd: () => {},
  onHangUp: () => {},
  endBy: () => {},
  holdEnd: () => false,
  releaseEnd: async () => false,
  onCrash: () => {},
  exit: (status) => {
    throw new Error(`A verb that should end by itself exits with ${status}`);
  },
  kill: () => {},
  parent: undefined,
};

/** A folder that is removed with what holds it. */
export type Folder = AsyncDisposable & { readonly path: string };

export async function openFolder(): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), "tollgate-cli-"));
  return {
    path,
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

export type Settings = {
  readonly store?: string;
  readonly keys?: string;
  readonly stateFile?: string;
  readonly production?: number;
  readonly staging?: number;
  readonly productionUpstream?: number;
  readonly stagingUpstream?: number;
  /** A port, or off. */
  readonly admin?: number | "off";
  readonly token?: string;
  /** The limits of the free plan. */
  readonly free?: string;
  readonly more?: string;
};

/** Writes a configuration into the folder; without more every port is any free one. */
export async function writeConfig(folder: Folder, settings: Settings = {}): Promise<string> {
  const file = join(folder.path, "tollgate.yaml");
  await writeFile(file, configText(settings));
  return file;
}

export function configText(settings: Settings = {}): string {
  const { store = "memory", production = 0, staging = 0, admin = "off" } = settings;
  const { productionUpstream = 9, stagingUpstream = 9, more = "" } = settings;
  const { free = "{ minute: 60, day: 1000 }" } = settings;
  const listen =
    admin === "off" ? "off" : `{ listen: "127.0.0.1:${admin}", token: "${settings.token ?? ""}" }`;
  return `store: ${store}
keys: ${settings.keys ?? "./data/keys.json"}
stateFile: ${settings.stateFile ?? "./data/state.json"}
environments:
  production:
    listen: 127.0.0.1:${production}
    basePath: /v1
    keyTag: live
    api: ${PETS}
    upstreams: ["http://127.0.0.1:${productionUpstream}"]
  staging:
    listen: 127.0.0.1:${staging}
    basePath: /v1
    keyTag: test
    api: ${PETS}
    upstreams: ["http://127.0.0.1:${stagingUpstream}"]
plans:
  free: ${free}
  pro: { minute: 300, day: 10000 }
  business: { minute: 1000, day: 100000 }
  enterprise: custom
admin: ${listen}
${more}`;
}

/** So many of them, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await freePort());
  return [...ports];
}

/** The one JSON value on stdout (docs/reference/commands.md#json); throws where there is anything else. */
export function jsonOf<T = Record<string, unknown>>({ out }: Pick<Said, "out">): T {
  return JSON.parse(out) as T;
}
