import assert from "node:assert/strict";
import { readFile, symlink, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { freePorts, runVerb, type Said } from "../cli/kit.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { startProgram } from "../support/gateway/processes.ts";
import type { TollgateCommand } from "./markdown.ts";

/** The key of account `acme`, whose id the pages use: `k_4fPqX1mZ0aBc`. */
const KEY = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
/** A refusal fails a line, except where the page shows the head of the answer. */
const CURL = `curl() {
  case " $* " in
    *" -i "* | *" -is "*) command curl "$@" ;;
    *) command curl --fail-with-body "$@" ;;
  esac
}`;
/** The refused request that the pages ask about. */
const REQUEST_ID = "0b8f4a52-5f0f-4d8c-9a53-c4c9f3a1b0de";

/** The day that the pages ask about, which is today at this desk. */
const DAY = "2026-11-21";

const TOKEN = "the-token-of-the-admin-listener-0123";

const BANS = { strikes: 1, within: "1m", grace: "0s", duration: "10m" };

/** A list of keys that another product issued. */
const KEY_LIST = "sk_0123456789abcdef01234567,customer-7,free\n";

const NEW_PLANS =
  "plans: { free: { minute: 30 }, pro: { minute: 200 }, business: { minute: 500 }, enterprise: custom }\n";

/**
 * The desk of an operator: a folder with a configuration, a gateway that runs by it, customers,
 * and what the gateway has logged. The process is in that folder until the desk is left.
 */
export class Desk implements AsyncDisposable {
  readonly #gateway: TestGateway;
  readonly #left: string;
  readonly #admin: number;
  #refused = "";
  /** The key of a customer who has not asked yet: `$KEY` of the pages. */
  #key = "";

  private constructor(gateway: TestGateway, admin: number) {
    this.#gateway = gateway;
    this.#admin = admin;
    this.#left = process.cwd();
    process.chdir(gateway.directory);
  }

  static async open(): Promise<Desk> {
    const [admin = 0] = await freePorts(1);
    const gateway = await startTestGateway({
      config: {
        admin: { listen: `127.0.0.1:${admin}`, token: TOKEN },
        bans: BANS,
        history: "400d",
        foreignKeys: [{ prefix: "sk_" }],
      },
      keys: {
        [KEY]: { id: "k_4fPqX1mZ0aBc", account: "acme", plan: "free", meta: { tenant: "42" } },
        pets_live_another: { id: "k_9sTuV2wX3yZ4", account: "a_8LwVnVUvnqzT", plan: "pro" },
      },
      files: { "key.txt": KEY, "keys.csv": KEY_LIST, "new-plans.yaml": NEW_PLANS },
    });
    const desk = new Desk(gateway, admin);
    await symlink(".", "config");
    await desk.#serveSome();
    await desk.#saveLogs();
    return desk;
  }

  /** Requests until one is refused: those of a minute of the free plan, and one more. */
  async #serveSome(): Promise<void> {
    for (let i = 0; i < 200 && this.#refused === ""; i++) {
      const answer = await this.#gateway.ask(KEY);
      await answer.text();
      if (answer.status === 429) this.#refused = answer.headers.get("x-request-id") ?? "";
    }
    assert.ok(this.#refused, "a request is refused");
    const body = JSON.stringify({ environment: "production", plan: "free", account: "ada" });
    const headers = { Authorization: `Bearer ${TOKEN}` };
    const issued = await this.#gateway.admin("/api/keys", { method: "POST", headers, body });
    this.#key = ((await issued.json()) as { key: string }).key;
  }

  /** The log, in the files that the pages name. */
  async #saveLogs(): Promise<void> {
    const { lines, said } = this.#gateway;
    const text = [...said, ...lines].map((line) => `${JSON.stringify(line)}\n`).join("");
    for (const name of ["gateway.log", "gateway-1.log", "tollgate.log"]) {
      await writeFile(name, text);
    }
    await writeFile("gateway-2.log.gz", gzipSync(""));
  }

  /** The environment of the commands. */
  get env(): Readonly<Record<string, string>> {
    return {
      KEY: this.#key,
      TOLLGATE_ADMIN_TOKEN: TOKEN,
      TOKEN,
      ADMIN_URL: this.#gateway.adminUrl,
    };
  }

  /** The text of a page, with the ports, the refused request and the day of this desk in place of its own. */
  here(text: string): string {
    return text
      .replaceAll("127.0.0.1:8080", `127.0.0.1:${this.#gateway.port}`)
      .replaceAll("127.0.0.1:9090", `127.0.0.1:${this.#admin}`)
      .replaceAll(REQUEST_ID, this.#refused)
      .replaceAll(DAY, new Date().toISOString().slice(0, DAY.length));
  }

  /** Runs a verb to its end in this process. */
  async type({ env, words, stdin, stdout }: TollgateCommand): Promise<Said> {
    const given = stdin === undefined ? "" : await readFile(stdin, "utf8");
    if (words.includes("--log")) await this.#saveLogs();
    // The configuration of the desk stays as it is.
    const more = words[0] === "init" ? ["--config", "new/tollgate.yaml"] : [];
    const said = await runVerb(
      [...words, ...more].map((word) => this.here(word)),
      {
        env: { ...this.env, ...this.#expanded(env) },
        stdin: given,
        answer: "y",
      },
    );
    if (stdout !== undefined) await writeFile(stdout, said.out);
    return said;
  }

  /** Runs a line of a shell to its end. */
  async shell(line: string): Promise<Said> {
    const script = `set -e -o pipefail\n${CURL}\n${this.here(line)}`;
    const options = { cwd: this.#gateway.directory, env: this.env };
    const { code, stdout, stderr } = await startProgram("bash", ["-c", script], options).exited;
    return { status: code ?? -1, out: stdout, err: stderr };
  }

  #expanded(env: Readonly<Record<string, string>>): Record<string, string> {
    const known: Readonly<Record<string, string>> = this.env;
    return Object.fromEntries(
      Object.entries(env).map(([name, value]) => {
        return [name, value.replace(/^\$(\w+)$/, (_, variable: string) => known[variable] ?? "")];
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.chdir(this.#left);
    await this.#gateway[Symbol.asyncDispose]();
  }
}
