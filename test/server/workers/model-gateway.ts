import assert from "node:assert/strict";
import { renameSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { startTestUpstream, type TestUpstream } from "../../support/gateway/backend.ts";
import {
  type ProcessResult,
  type RunningProcess,
  startTollgate,
} from "../../support/gateway/processes.ts";
import { ACCOUNT, KEY, keysOfServed } from "../../support/gateway/served.ts";
import { isAlive } from "../../support/is-alive.ts";
import { eventually } from "../../support/poll.ts";
import { freePort } from "../../support/redis/redis.ts";
import { get, type Outcome, pidsOf } from "./kit.ts";

/** The content of a configuration file, as far as it differs between two saves. */
export type Content = {
  /** The limit of the plan, which every answer tells: a reload changes it. */
  readonly limit: number;
  /** A setting that only a restart changes: the number of processes, or a prefix for the memory store. */
  readonly fixed: number;
  readonly mistake?: Mistake | undefined;
};
export type Mistake = (typeof MISTAKES)[number];
export const MISTAKES = ["yaml", "schema", "certificate"] as const;

/** The address of a Redis, and the prefix of the names in it. */
export type SharedStore = { readonly store: string; readonly storePrefix: string };

type Line = Readonly<Record<string, unknown>>;
type Readiness = { status: number; checks: Record<string, { ok: boolean; why?: string }> };

/**
 * A gateway that commands start, change, kill and stop, as an operator does: real processes on a
 * store that outlives them, a backend that answers when it is told to, and a client.
 */
export class GatewayUnderTest implements AsyncDisposable {
  readonly backend: TestUpstream;
  readonly #folder: string;
  readonly #redis: SharedStore | undefined;
  /** The same for every process and every start. */
  readonly #port: number;
  #process: RunningProcess | undefined;
  #held: (() => void)[] = [];
  #adminUrl = "";

  private constructor(
    { folder, port }: { readonly folder: string; readonly port: number },
    backend: TestUpstream,
    redis: SharedStore | undefined,
  ) {
    this.#folder = folder;
    this.backend = backend;
    this.#redis = redis;
    this.#port = port;
    backend.answer((seen, response) => {
      const answer = () => response.writeHead(200).end("whole");
      if (seen.target.includes("held")) this.#held.push(answer);
      else answer();
    });
  }

  /** Without a shared store it has the memory store, and one process. */
  static async open(redis: SharedStore | undefined): Promise<GatewayUnderTest> {
    const folder = await mkdtemp(join(tmpdir(), "tollgate-model-"));
    await mkdir(join(folder, "tmp"));
    const place = { folder, port: await freePort() };
    const real = new GatewayUnderTest(place, await startTestUpstream(), redis);
    writeFileSync(join(folder, "keys.json"), keysOfServed());
    return real;
  }

  get file(): string {
    return join(this.#folder, "tollgate.yaml");
  }

  get running(): RunningProcess {
    assert.ok(this.#process, "it runs");
    return this.#process;
  }

  /** The processes that serve, besides the one that was started. */
  get workers(): number[] {
    return pidsOf(this.running);
  }

  /** Every process of it that ever served. */
  get pids(): number[] {
    const serves = this.running.lines().filter(({ msg }) => msg === "worker_serves");
    return [this.running.pid, ...serves.map(({ pid }) => Number(pid))];
  }

  /** Saves the configuration: in place, or as editors do that replace the file. */
  save(content: Content, how: "in place" | "by rename" = "in place"): void {
    const text = this.#text(content);
    const written = how === "in place" ? this.file : `${this.file}.new`;
    writeFileSync(written, text);
    renameSync(written, this.file);
  }

  #text({ limit, fixed, mistake }: Content): string {
    if (mistake === "yaml") return "plans: {";
    const shared = this.#redis === undefined ? { storePrefix: `p${fixed}` } : { workers: fixed };
    const tls = mistake === "certificate" ? "tls: { cert: keys.json, key: keys.json }," : "";
    return `${stringify({ store: "memory", ...this.#redis, ...shared })}
storeTimeout: 1s
onStoreFailure: deny
keys: ./keys.json
stateFile: ./state.json
environments:
  production: { listen: "127.0.0.1:${this.#port}", basePath: /v1, keyTag: live, ${tls} upstreams: ["${this.backend.origin}"] }
plans: { vectors: { month: ${mistake === "schema" ? "many" : limit} } }
bans: off
limits: { drain: 10m, responseTimeout: 10m }
admin: { listen: "127.0.0.1:0" }
`;
  }

  /** Starts the program. Gives how it ended if it did before it served. */
  async start(): Promise<ProcessResult | undefined> {
    const env = { TMPDIR: join(this.#folder, "tmp") };
    const started = startTollgate(["start", "--config", this.file], { env });
    this.#process = started;
    const serves = ({ msg }: Line) => msg === "serving";
    let ended: ProcessResult | undefined;
    void started.exited.then((result) => {
      ended = result;
    });
    await eventually(() => ended !== undefined || started.lines().some(serves));
    const line = started.lines().find(serves);
    if (line === undefined) return ended;
    this.#adminUrl = String(line.admin);
    return undefined;
  }

  mark(): number {
    return this.running.lines().length;
  }

  /** The events of this kind, or the lines with this message, since a mark. */
  since(mark: number, name: string): readonly Line[] {
    const lines = this.running.lines().slice(mark);
    return lines.filter(({ msg, kind }) => name === (msg === "event" ? kind : msg));
  }

  /** Waits for one of them of which the claim is true, and gives it. */
  async told(name: string, mark: number, claim: (line: Line) => boolean = () => true) {
    return eventually(() => {
      const line = this.since(mark, name).find(claim);
      assert.ok(line, `${name} in ${this.running.stdout().slice(-2_000)}`);
      return line;
    });
  }

  ask(held = false): Promise<Outcome> {
    return get(`http://127.0.0.1:${this.#port}/v1/animals${held ? "?held" : ""}`, KEY);
  }

  /** The number of requests whose answers the backend holds. */
  get holds(): number {
    return this.#held.length;
  }

  release(): void {
    for (const answer of this.#held.splice(0)) answer();
  }

  async ready(): Promise<Readiness> {
    const response = await fetch(`${this.#adminUrl}/readyz`);
    const { checks } = (await response.json()) as Pick<Readiness, "checks">;
    return { status: response.status, checks };
  }

  /** An answer of the admin API. */
  async api(path: string, method: "GET" | "POST" = "GET"): Promise<Record<string, unknown>> {
    const headers = { "Content-Type": "application/json" };
    const sent = method === "POST" ? { method, headers, body: "{}" } : {};
    const response = await fetch(`${this.#adminUrl}${path}`, sent);
    return { status: response.status, ...((await response.json()) as object) };
  }

  /** The units that the store has counted. */
  async counted(): Promise<number> {
    const { windows } = (await this.api(`/api/usage/${ACCOUNT}`)) as {
      windows: { used: number }[];
    };
    return windows[0]?.used ?? Number.NaN;
  }

  /** Waits until no process of it is left and no connection is taken. */
  async gone(): Promise<void> {
    if (this.#process === undefined) return;
    await eventually(() => !this.pids.some(isAlive));
    assert.equal((await this.ask()).code, "ECONNREFUSED", "no port is bound");
    const left = await readdir(join(this.#folder, "tmp"));
    assert.deepEqual(left, [], "it leaves nothing among temporary files");
  }

  /** Ends the process that was started, and not the others: they hold its stderr, and so its end. */
  async crash(): Promise<void> {
    const { child } = this.running;
    child.kill("SIGKILL");
    await eventually(() => assert.equal(child.signalCode, "SIGKILL"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.backend.close();
    const started = this.#process;
    if (started !== undefined) {
      started.child.kill("SIGKILL");
      for (const pid of this.workers.filter(isAlive)) process.kill(pid, "SIGKILL");
      await started.exited;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}
