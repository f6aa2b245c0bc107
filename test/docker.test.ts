import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, it } from "vitest";
import { openBackend } from "./support/gateway/backend.ts";
import { startNode } from "./support/gateway/processes.ts";

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

/** What a build does, done in folders: each stage is a root of its own. Gives the last one's. */
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
  assert.match(command, /^npm ci /, "a step that this test does not know");
  const [program = "", ...args] = command.split(" ");
  await run(program, [...args, "--prefer-offline"], { cwd, timeout: 120_000 });
}

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
    assert.ok(last.slice(user).every(({ word }) => !["COPY", "RUN"].includes(word)));
    assert.deepEqual(all("STOPSIGNAL"), ["SIGTERM"]);
    assert.deepEqual(JSON.parse(all("ENTRYPOINT")[0] ?? ""), ["tollgate"]);
    assert.deepEqual(JSON.parse(all("CMD")[0] ?? ""), ["start"]);
  });

  it("holds what package.json depends on, and nothing for development", async () => {
    const { dependencies, devDependencies } = JSON.parse(
      await readFile(join(ROOT, "package.json"), "utf8"),
    ) as Record<"dependencies" | "devDependencies", Record<string, string>>;
    const installed = await readdir(join(root, "app/node_modules"));
    const missing = Object.keys(dependencies).filter((name) => !installed.includes(name));
    assert.deepEqual(missing, []);
    const surplus = Object.keys(devDependencies).filter((name) => installed.includes(name));
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

  it("serves, is healthy by its own check, keeps its data in the volume and ends at SIGTERM", async () => {
    await using backend = await openBackend();
    const file = join(root, "tollgate/config/tollgate.yaml");
    const shipped = await readFile(file, "utf8");
    const free = shipped.replace("0.0.0.0:8080", "127.0.0.1:0").replace(":9090", ":0");
    await writeFile(file, free);
    const cwd = join(root, "tollgate");
    const main = join(root, "app/src/main.ts");
    const env = { NODE_ENV: "production", TOLLGATE_UPSTREAM: backend.origin };
    const issued = startNode(
      [main, "keys", "create", "--env", "production", "--plan", "free", "--json"],
      { cwd, env },
    );
    const { code, stdout, stderr } = await issued.exited;
    assert.equal(code, 0, stderr);
    const { key } = JSON.parse(stdout) as { key: string };
    await using gateway = startNode([main, "start"], { cwd, env });
    const serving = await gateway.line(({ msg }) => msg === "serving");
    const { urls, admin } = serving as { urls: Record<string, string>; admin: string };

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
    const answer = await fetch(`${urls.production}/v1/pets`, { headers: { authorization } });
    assert.equal(answer.status, 200, await answer.text());
    assert.equal(backend.seen.length, 1);
    const { code: status } = await gateway.stop();
    assert.equal(status, 0, gateway.stderr());
    const kept = await readdir(join(cwd, "data"));
    assert.ok(kept.includes("keys.json") && kept.includes("state.json"), kept.join(" "));
    assert.equal(await isHealthy(), false, "a gateway that is gone is not healthy");
  });

  it("has a wrapper that hands its arguments and its signals to node", async () => {
    const wrapper = await readFile(join(root, "usr/local/bin/tollgate"), "utf8");
    assert.match(wrapper, /^#!\/bin\/sh\n(?:#.*\n)*exec node \/app\/src\/main\.ts "\$@"\n$/);
  });
});
