import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, it } from "vitest";
import { each } from "./support/each.ts";
import { startTestUpstream } from "./support/gateway/backend.ts";
import { startNode, startProgram } from "./support/gateway/processes.ts";
import { needing, provided } from "./support/needing.ts";
import { eventually } from "./support/poll.ts";

const ROOT = join(import.meta.dirname, "..");
const run = promisify(execFile);

type Step = { readonly word: string; readonly rest: string };

/** One instruction a line, continued lines joined, comments left out. */
function stepsOf(text: string): Step[] {
  const lines = text.replaceAll(/^\s*#.*\n/gm, "").replaceAll("\\\n", " ");
  return [...lines.matchAll(/^([A-Z]+)\s+(.*)$/gm)].map(([, word = "", rest = ""]) => {
    return { word, rest: rest.trim() };
  });
}

/** Does the steps of a build in folders: each stage is a root of its own. Gives the last one's. */
async function build(steps: readonly Step[], folder: string): Promise<string> {
  const stages = new Map<string, string>();
  let root = folder;
  let workdir = "/";
  for (const { word, rest } of steps) {
    if (word === "FROM") {
      root = join(folder, `stage-${stages.size}`);
      stages.set(/ AS (\S+)$/.exec(rest)?.[1] ?? "", root);
      workdir = "/";
    } else if (word === "WORKDIR") {
      workdir = rest;
      await mkdir(join(root, workdir), { recursive: true });
    } else if (word === "COPY") {
      await copy(rest, stages, root, workdir);
    } else if (word === "RUN") {
      await runStep(rest, join(root, workdir));
    }
  }
  return root;
}

/** A source that .dockerignore keeps out is not there for a build either. */
async function copy(
  rest: string,
  stages: ReadonlyMap<string, string>,
  root: string,
  workdir: string,
): Promise<void> {
  const words = rest.split(/\s+/);
  const from = words.find((word) => word.startsWith("--from="))?.slice("--from=".length);
  const [target = "", ...sources] = words.filter((word) => !word.startsWith("--")).reverse();
  const source = from === undefined ? ROOT : stages.get(from);
  assert.ok(source, `no stage ${from}`);
  const ignore = await readFile(join(ROOT, ".dockerignore"), "utf8");
  for (const name of sources) {
    const sent = ignore.split("\n").includes(`!${name.split("/")[0]}`);
    assert.ok(from !== undefined || sent, `${name} is not sent to the build`);
    const into = target.startsWith("/") ? join(root, target) : join(root, workdir, target);
    const whole = name.endsWith(`/${target.split("/").at(-1)}`) || name === "src";
    await cp(join(source, name), whole ? into : join(into, name.split("/").at(-1) ?? ""), {
      recursive: true,
    });
  }
}

async function runStep(command: string, cwd: string): Promise<void> {
  if (command === "install -d -o node -g node data") {
    await mkdir(join(cwd, "data"), { recursive: true });
    return;
  }
  // The tests have the programs of Debian from scripts/needs.ts.
  if (command.startsWith("apt-get update && apt-get install ")) return;
  assert.match(command, /^npm ci /, "a step that this test does not know");
  const [program = "", ...args] = command.split(" ");
  await run(program, [...args, "--prefer-offline"], { cwd, timeout: 120_000 });
}

/** The README's lines about a container: the configuration, and the commands in their order. */
async function readmeLines() {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const production = readme.slice(readme.indexOf("## Production"));
  const block = (language: string) => {
    return new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, "s").exec(production)?.[1] ?? "";
  };
  const commands = block("sh").trim().split("\n");
  return { yaml: block("yaml"), commands, run: commands[1] ?? "" };
}

/** A namespace of process IDs of its own, as a container has. */
const AS_CONTAINER = ["unshare", "--fork", "--pid", "--kill-child"] as const;
const canBeFirst = spawnSync(AS_CONTAINER[0], [...AS_CONTAINER.slice(1), "true"]).status === 0;

/** A Node that says that it loads, and never comes to the program. */
const STUCK = `
  require("node:fs").writeSync(2, "loading\\n");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);`;

describe("the image", () => {
  let folder = "";
  let root = "";
  let steps: Step[] = [];
  const all = (word: string) => steps.filter((step) => step.word === word).map(({ rest }) => rest);

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-image-"));
    steps = stepsOf(await readFile(join(ROOT, "Dockerfile"), "utf8"));
    root = await build(steps, folder);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it("is built in two stages on node:26-slim, and runs as node", () => {
    assert.deepEqual(all("FROM"), ["node:26-slim AS dependencies", "node:26-slim"]);
    const last = steps.slice(steps.findLastIndex(({ word }) => word === "FROM"));
    assert.deepEqual(
      last.filter(({ word }) => word === "USER").map(({ rest }) => rest),
      ["node"],
    );
    const user = last.findIndex(({ word }) => word === "USER");
    assert.ok(each(last.slice(user)).every(({ word }) => !["COPY", "RUN"].includes(word)));
    assert.deepEqual(all("STOPSIGNAL"), ["SIGTERM"]);
    assert.deepEqual(JSON.parse(all("ENTRYPOINT")[0] ?? ""), ["tini", "--", "tollgate"]);
    assert.deepEqual(JSON.parse(all("CMD")[0] ?? ""), ["start"]);
  });

  it("holds what package.json depends on, and nothing for development", async () => {
    const { dependencies, devDependencies } = JSON.parse(
      await readFile(join(ROOT, "package.json"), "utf8"),
    ) as Record<"dependencies" | "devDependencies", Record<string, string>>;
    const isInstalled = (name: string) => existsSync(join(root, "app/node_modules", name));
    const missing = Object.keys(dependencies).filter((name) => !isInstalled(name));
    assert.deepEqual(missing, []);
    const { packages } = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8")) as {
      packages: Record<string, { dev?: boolean }>;
    };
    // A package may be wanted by both sides: the lock file marks those of development alone.
    const surplus = Object.keys(devDependencies).filter((name) => {
      return packages[`node_modules/${name}`]?.dev === true && isInstalled(name);
    });
    assert.deepEqual(surplus, []);
    assert.deepEqual((await readdir(join(root, "app"))).sort(), [
      "node_modules",
      "package.json",
      "src",
    ]);
  });

  it("finds its configuration where one is mounted, without being told", async () => {
    const checked = startNode([join(root, "app/src/main.ts"), "check"], {
      cwd: join(root, "tollgate"),
    });
    assert.deepEqual((await checked.exited).code, 0, checked.stderr());
  });

  it("is given what the README's command lines name: its port, its folders, its program", async () => {
    const { run: started, commands } = await readmeLines();
    const option = (name: string) => {
      return [...started.matchAll(new RegExp(`${name} (\\S+)`, "g"))].map(([, value]) => value);
    };
    assert.deepEqual(option("-p"), [`8080:${all("EXPOSE")[0]}`]);
    const [data] = all("VOLUME");
    const folder = all("WORKDIR").at(-1);
    assert.deepEqual(option("-v"), [`./gateway:${folder}/config:ro`, `tollgate-data:${data}`]);
    assert.deepEqual(option("--add-host"), ["host.docker.internal:host-gateway"]);
    assert.ok(all("ENV").includes(`TOLLGATE_DATA=${data}`));
    const name = option("--name")[0];
    const tag = /^docker build -t (\S+) \.$/.exec(commands[0] ?? "")?.[1];
    assert.ok(tag !== undefined && started.endsWith(` ${tag}`), started);
    assert.match(commands.at(-2) ?? "", new RegExp(`^docker exec ${name} tollgate `));
    assert.match(commands.at(-1) ?? "", new RegExp(`^docker stop .*${name}$`));
    assert.equal(commands.length, 4);
  });

  it("serves by the README's steps, is healthy, keeps its data in the volume, ends at SIGTERM", async () => {
    await using backend = await startTestUpstream();
    const { yaml, commands } = await readmeLines();
    const cwd = join(root, "tollgate");
    const free = yaml
      .replace("0.0.0.0:8080", "127.0.0.1:0")
      .replace("http://host.docker.internal:3000", backend.origin);
    assert.ok(free.includes("127.0.0.1:0") && free.includes(backend.origin), yaml);
    const config = `${free}\nadmin: { listen: 127.0.0.1:0 }\n`;
    await writeFile(join(cwd, "config/tollgate.yaml"), config);
    const before = await readdir(join(cwd, "config"));

    const main = join(root, "app/src/main.ts");
    const env = { NODE_ENV: "production", TOLLGATE_DATA: join(root, "tollgate/data") };
    await using gateway = startNode([main, "start"], { cwd, env });
    const serving = await gateway.line(({ msg }) => msg === "serving");
    const { urls, admin } = serving as { urls: Record<string, string>; admin: string };
    const words = (commands.at(-2) ?? "")
      .split(" ")
      .slice("docker exec NAME tollgate".split(" ").length);
    const issued = startNode([main, ...words, "--json"], { cwd, env });
    const { code, stdout, stderr } = await issued.exited;
    assert.equal(code, 0, stderr);
    const { key } = JSON.parse(stdout) as { key: string };

    const health = all("HEALTHCHECK")[0] ?? "";
    const [program, ...args] = JSON.parse(health.slice(health.indexOf("["))) as string[];
    assert.equal(program, "node");
    assert.ok(all("ENV").includes("TOLLGATE_HEALTH_URL=http://127.0.0.1:9090/livez"));
    const TOLLGATE_HEALTH_URL = new URL("/livez", admin).href;
    const isHealthy = async () => {
      const checked = startNode(args, { env: { TOLLGATE_HEALTH_URL } });
      return (await checked.exited).code === 0;
    };
    assert.equal(await isHealthy(), true);

    const authorization = `Bearer ${key}`;
    await eventually(async () => {
      const answer = await fetch(`${urls.production}/v1/anything`, { headers: { authorization } });
      assert.equal(answer.status, 200, await answer.text());
    });
    assert.equal(backend.seen.length, 1);
    const { code: status } = await gateway.stop();
    assert.equal(status, 0, gateway.stderr());
    const kept = await readdir(join(cwd, "data"));
    assert.ok(kept.includes("keys.json") && kept.includes("state.json"), kept.join(" "));
    assert.deepEqual(await readdir(join(cwd, "config")), before, "the configuration is read-only");
    assert.equal(await isHealthy(), false, "a gateway that is gone is not healthy");
  });

  it("ends by a SIGTERM that comes before node has loaded the gateway, and drains by a later one", {
    ...needing("tini"),
    ...provided(canBeFirst, "a right to namespaces"),
  }, async () => {
    const bin = join(folder, "bin");
    const wrapper = await readFile(join(root, "usr/local/bin/tollgate"), "utf8");
    await mkdir(bin);
    await writeFile(join(bin, "tollgate"), wrapper.replace(" /app/", ` ${root}/app/`), {
      mode: 0o755,
    });
    await writeFile(join(bin, "stuck.cjs"), STUCK);
    const config = join(bin, "tollgate.yaml");
    await writeFile(
      config,
      `environments:
  production: { listen: 127.0.0.1:0, basePath: /v1, keyTag: live, upstreams: ["http://127.0.0.1:9"] }
plans: { free: { minute: 60 } }
admin: off
`,
    );
    const start = (env: Record<string, string>) => {
      const entry = JSON.parse(all("ENTRYPOINT")[0] ?? "") as string[];
      const [program, ...args] = [...AS_CONTAINER, ...entry, "start", "--config", config];
      const PATH = `${bin}:${process.env.PATH}`;
      return startProgram(program as string, args, { env: { PATH, TOLLGATE_DATA: bin, ...env } });
    };
    const terminate = async ({ pid, exited }: ReturnType<typeof start>) => {
      const first = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
      process.kill(Number(first), "SIGTERM");
      return (await exited).code;
    };
    await using early = start({ NODE_OPTIONS: `--require=${join(bin, "stuck.cjs")}` });
    await early.says("loading");
    assert.equal(await terminate(early), 128 + 15, early.stderr());
    await using serving = start({});
    await serving.line(({ msg }) => msg === "serving");
    assert.equal(await terminate(serving), 0, serving.stderr());
    await serving.line(({ msg }) => msg === "stopped");
  });

  it("has a wrapper that hands its arguments and its signals to node", async () => {
    const wrapper = await readFile(join(root, "usr/local/bin/tollgate"), "utf8");
    assert.match(wrapper, /^#!\/bin\/sh\n(?:#.*\n)*exec node \/app\/src\/main\.ts "\$@"\n$/);
  });
});
