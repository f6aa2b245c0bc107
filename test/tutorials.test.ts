import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import {
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, it } from "vitest";
import { type RunningProcess, startProgram } from "./support/gateway/processes.ts";
import { freePort } from "./support/redis/redis.ts";

const ROOT = join(import.meta.dirname, "..");
const FOLDER = join(ROOT, "docs/tutorials");
/** A dozen programs start one after the other. */
const SLOW_MS = 900_000;
/** The ports of the pages: a test has others. */
const PORTS = [
  ...["3000", "8080", "9090"],
  ...["3100", "8180", "9190"],
  ...["3300", "8380", "9390"],
  ...["3200", "6399", "8280", "8281", "9290", "9291"],
];
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
    const file = /`([\w./]+\.(?:yaml|mjs))`[^`]*$/.exec(
      before.slice(before.lastIndexOf("```") + 3),
    )?.[1];
    return { language: found[1] ?? "", text: found[2] ?? "", file };
  });
}

function withPorts(text: string, ports: ReadonlyMap<string, number>): string {
  return text.replaceAll(/\b\d{4}\b/g, (number) => String(ports.get(number) ?? number));
}

/** The configuration that init has written, moved to the ports of the test. */
async function moveWritten(file: string, ports: ReadonlyMap<string, number>): Promise<void> {
  const text = withPorts(await readFile(file, "utf8"), ports);
  await writeFile(file, `${text}admin: { listen: 127.0.0.1:${ports.get("9090")} }\n`);
}

/** A configuration that waits for its Redis on a busy machine, where the page's would decide alone. */
function patient(text: string): string {
  return /^store: /m.test(text) ? `${text}storeTimeout: 1s\n` : text;
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
    // A pipe fails with its first command, so that none hides a refusal.
    const kept = "[ ! -f .variables ] || . ./.variables\nset -e -o pipefail\n";
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
    return startProgram("bash", ["-c", script], { cwd: this.#folder, env: this.#env });
  }
}

/** The files of this checkout as git would clone them, with what `npm ci` installs. */
async function cloneCheckout(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-tutorial-"));
  const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const files = execFileSync("git", list, { cwd: ROOT, encoding: "utf8" }).split("\0");
  for (const file of files) {
    if (file === "" || !existsSync(join(ROOT, file))) continue;
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await copyFile(join(ROOT, file), join(folder, file));
  }
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** A page from its top to its end, in the clone; its programs are ended with it. */
async function follow(name: string, folder: string, ports: ReadonlyMap<string, number>) {
  const page = withPorts(await readFile(join(FOLDER, name), "utf8"), ports);
  await using lasting = new AsyncDisposableStack();
  const reader = new Reader(folder, lasting);
  let said = "";
  for (const { language, text, file } of blocksOf(page)) {
    if (language === "sh") {
      said = (await reader.type(text.trim())).replaceAll("\r", "");
      const written = / -- init\b.* --config (\S+)/.exec(text)?.[1];
      if (written !== undefined) await moveWritten(join(folder, written), ports);
    } else if (language === "text") {
      for (const line of text.trim().split("\n")) {
        assert.ok(said.includes(line), `${name}: ${line}\n${said}`);
      }
    } else {
      assert.ok(file, `${name} says how the file is called: ${text}`);
      await writeFile(join(folder, file), patient(text));
    }
  }
}

describe("the tutorials", () => {
  it(
    "can be followed to their ends in one clone, one after the other",
    async () => {
      const pages = ["first-429.md", "your-backend.md", "language-model.md", "second-gateway.md"];
      const there = (await readdir(FOLDER)).filter((name) => name.endsWith(".md"));
      assert.deepEqual(there.toSorted(), pages.toSorted(), "every tutorial is followed");
      const ports = new Map<string, number>();
      for (const port of PORTS) ports.set(port, await freePort());
      const folder = await cloneCheckout();
      try {
        for (const name of pages) await follow(name, folder, ports);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
    SLOW_MS,
  );
});
