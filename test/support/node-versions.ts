import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { access, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";

const ROOT = join(import.meta.dirname, "../..");
/** `npm ci` empties it with the rest of node_modules, so that nothing old stays. */
const CACHE = join(ROOT, "node_modules/.cache/node-versions");
const INSTALL_MS = 300_000;

const json = (file: string) => JSON.parse(readFileSync(join(ROOT, file), "utf8"));
const { engines } = json("package.json");

/** The newest Node of each line. That of the last line is the one that npm's scripts run on. */
const NEWEST: Readonly<Record<string, string>> = {
  22: "22.23.3",
  24: "24.21.0",
  26: json("node_modules/node/package.json").version,
};

/** The oldest and the newest Node of each line in `engines`, such as "22.23.2", in order. */
export const ENGINE_VERSIONS: readonly string[] = oldestOf(engines.node).flatMap((oldest) => {
  const [line = ""] = oldest.split(".");
  const newest = NEWEST[line];
  if (newest === undefined) throw new Error(`Name the newest Node ${line} in node-versions.ts`);
  return [...new Set([oldest, newest])];
});

/** "">=22.23.2 <23 || >=26.5.1" begins at 22.23.2 and 26.5.1. */
function oldestOf(range: string): string[] {
  return [...range.matchAll(/>=(\d+\.\d+\.\d+)/g)].map(([, version = ""]) => version);
}

/** A Node of one version: where it is, or why it cannot be had here. */
export type EngineNode = { readonly version: string } & (
  | { readonly path: string }
  | { readonly why: string }
);

/**
 * The Nodes of ENGINE_VERSIONS, installed from the package of their platform where they are not yet.
 * On a machine that cannot have one of them, CI gets it with the reason, so that its tests fail; by
 * hand it is left out, and stderr says so.
 */
export async function engineNodes(
  versions: readonly string[] = ENGINE_VERSIONS,
): Promise<readonly EngineNode[]> {
  const nodes = await Promise.all(versions.map(engineNode));
  return nodes.filter((node) => {
    if ("path" in node || process.env.CI) return true;
    process.stderr.write(`not tested on Node ${node.version}: ${node.why}\n`);
    return false;
  });
}

/** The oldest Node of all. The tests themselves run on the newest; a release is tested on the others. */
export function oldestNode(): Promise<readonly EngineNode[]> {
  return engineNodes(ENGINE_VERSIONS.slice(0, 1));
}

/** The Node that this process runs on. */
export const OWN_NODE: EngineNode = { version: process.versions.node, path: process.execPath };

/**
 * In CI this is called once for each project that has something to run, before any test: what is
 * installed beside a test of time makes it late.
 */
export async function setup({ name }: Pick<TestProject, "name">): Promise<void> {
  if (!process.env.CI) return;
  if (name === "release") await engineNodes();
  if (name === "system") await oldestNode();
}

/** The path of its program; fails where it cannot be had. */
export function programOf(node: EngineNode): string {
  if ("path" in node) return node.path;
  throw new Error(`Cannot install Node ${node.version}: ${node.why}`);
}

async function engineNode(version: string): Promise<EngineNode> {
  if (process.version === `v${version}`) return { version, path: process.execPath };
  const path = join(CACHE, version, "node");
  try {
    await access(path);
  } catch {
    const why = await install(version);
    if (why !== undefined) return { version, why };
  }
  return { version, path };
}

/** Several test files may install at a time: a program appears whole, or not at all. */
async function install(version: string): Promise<string | undefined> {
  const name = `node-${process.platform}-${process.arch}`;
  await mkdir(CACHE, { recursive: true });
  const folder = await mkdtemp(join(CACHE, ".installing-"));
  try {
    process.stderr.write(`installing: ${name}@${version}\n`);
    const options = [
      ...["--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit"],
      ...["--fetch-retries=1", "--fetch-timeout=60000"],
    ];
    await promisify(execFile)(
      "npm",
      ["install", ...options, "--prefix", folder, `${name}@${version}`],
      { timeout: INSTALL_MS },
    );
    const target = join(CACHE, version);
    await mkdir(target, { recursive: true });
    await rename(join(folder, "node_modules", name, "bin/node"), join(target, "node"));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.split("\n").slice(0, 3).join(" ") : String(error);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Variables that npm sets for its scripts must not reach an npm that is started by itself. */
export function userEnv(): Record<string, string> {
  const own = Object.entries(process.env).filter(
    ([name, value]) => value !== undefined && !/^(?:npm_|VITEST|NODE_OPTIONS$)/i.test(name),
  );
  return Object.fromEntries(own) as Record<string, string>;
}
