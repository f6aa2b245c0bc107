import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, it } from "vitest";
import { type RunningProcess, startProgram } from "./support/gateway/processes.ts";
import { freePort } from "./support/redis/redis.ts";

const ROOT = join(import.meta.dirname, "..");
const FOLDER = join(ROOT, "docs/tutorials");
/** A dozen programs start one after the other. */
const SLOW_MS = 240_000;
/** The ports of the pages: a test has others. */
const PORTS = ["3000", "6399", "8080", "8081", "9090", "9091"];
/** Programs that run until they are ended, by what they say when they are ready. */
const LASTING: readonly (readonly [RegExp, RegExp])[] = [
  [/ -- start\b/, /"msg":"serving"/],
  [/ -- pets\b/, /http:\/\/127\.0\.0\.1:\d+/],
  [/^redis-server\b/, /Ready to accept connections/],
];

type Block = {
  readonly language: string;
  readonly text: string;
  readonly file: string | undefined;
};

/** The blocks of a page in order; the name of a file is the last that stands before its block. */
function blocksOf(page: string): Block[] {
  return [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map((found) => {
    const before = page.slice(0, found.index).trimEnd();
    const file = /`([\w.]+\.(?:yaml|mjs))`[^`]*$/.exec(
      before.slice(before.lastIndexOf("```") + 3),
    )?.[1];
    return { language: found[1] ?? "", text: found[2] ?? "", file };
  });
}

function withPorts(text: string, ports: ReadonlyMap<string, number>): string {
  return text.replaceAll(/\b\d{4}\b/g, (number) => String(ports.get(number) ?? number));
}

/** The configuration that init has written, moved to the ports of the test. */
async function moveWritten(folder: string, ports: ReadonlyMap<string, number>): Promise<void> {
  const file = join(folder, "config/tollgate.yaml");
  const text = withPorts(await readFile(file, "utf8"), ports);
  await writeFile(file, `${text}admin: { listen: 127.0.0.1:${ports.get("9090")} }\n`);
}

class Reader {
  readonly #folder: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #lasting: AsyncDisposableStack;

  constructor(folder: string, lasting: AsyncDisposableStack) {
    this.#folder = folder;
    this.#lasting = lasting;
    this.#env = { PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
  }

  /** Types a block into a terminal; gives all that it says. Variables are kept for the next one. */
  async type(text: string): Promise<string> {
    const lasting = LASTING.find(([program]) => program.test(text));
    if (lasting !== undefined) return this.#leave(text, lasting[1]);
    if (/^node /.test(text)) return this.#leave(text, undefined);
    const kept = "[ ! -f .variables ] || . ./.variables\nset -e\n";
    const script = `${kept}${text}\nset | grep '^KEY=' > .variables || true`;
    const running = this.#start(script);
    const { code, stdout, stderr } = await running.exited;
    assert.equal(code, 0, `${text}\n${stdout}\n${stderr}`);
    return stdout;
  }

  async #leave(text: string, ready: RegExp | undefined): Promise<string> {
    const running = this.#start(`exec ${text.replace(/^((?:\w+=\S+ )+)/, "env $1")}`);
    // npm hands SIGTERM on to its program, and could not do so with SIGKILL.
    this.#lasting.defer(async () => void (await running.stop()));
    if (ready !== undefined) await running.says(ready);
    return "";
  }

  #start(script: string): RunningProcess {
    return startProgram("/bin/sh", ["-c", script], { cwd: this.#folder, env: this.#env });
  }
}

describe("a tutorial", async () => {
  const pages = (await readdir(FOLDER)).filter((name) => name.endsWith(".md"));
  assert.ok(pages.length >= 3);

  for (const name of pages) {
    it(
      `can be followed to its end: ${name}`,
      async () => {
        const folder = await mkdtemp(join(tmpdir(), "tollgate-tutorial-"));
        // As after npm ci: the script of the checkout, its packages and its sources.
        const scripts = { tollgate: `node ${JSON.stringify(join(ROOT, "src/main.ts"))}` };
        await writeFile(join(folder, "package.json"), JSON.stringify({ scripts, type: "module" }));
        await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
        const ports = new Map<string, number>();
        for (const port of PORTS) ports.set(port, await freePort());
        const page = withPorts(await readFile(join(FOLDER, name), "utf8"), ports);
        {
          await using lasting = new AsyncDisposableStack();
          const reader = new Reader(folder, lasting);
          let said = "";
          for (const { language, text, file } of blocksOf(page)) {
            if (language === "sh") {
              said = (await reader.type(text.trim())).replaceAll("\r", "");
              if (/ -- init\b/.test(text)) await moveWritten(folder, ports);
            } else if (language === "text") {
              const lines = text.trim().split("\n");
              for (const line of lines) assert.ok(said.includes(line), `${name}: ${line}\n${said}`);
            } else {
              assert.ok(file, `${name} says how the file is called: ${text}`);
              await writeFile(join(folder, file), text);
            }
          }
        }
        await rm(folder, { recursive: true, force: true });
      },
      SLOW_MS,
    );
  }
});
