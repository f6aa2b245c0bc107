import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  type Check,
  type Facts,
  judge,
  type Lock,
  type Sbom,
  sbomOfInstalled,
} from "./release/judge.ts";

/**
 * npm run release: builds and packs, writes the bill of materials, the digests and where all of it
 * came from, and judges whether it may be published (CONTRIBUTING.md). Publishes with `--publish`
 * alone, and then only what every check passed.
 */
const ROOT = join(import.meta.dirname, "..");
const { values: options } = parseArgs({
  options: {
    "dry-run": { type: "boolean", default: false },
    publish: { type: "boolean", default: false },
    tests: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    out: { type: "string", default: join(ROOT, "release") },
    "base-image": { type: "string" },
  },
});
const dryRun = options["dry-run"];
const out = resolve(options.out);

type Packed = {
  readonly filename: string;
  readonly size: number;
  readonly integrity: string;
  readonly files: readonly { readonly path: string }[];
};

/** Stdout of a program that has to succeed; what it says itself goes to stderr. */
function read(program: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: ROOT,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status === 0) return stdout;
  throw new Error(`Cannot run ${program} ${args.join(" ")}: ${error?.message ?? stderr}`);
}

function tryRead(program: string, ...args: string[]): string | undefined {
  try {
    return read(program, ...args);
  } catch {
    return undefined;
  }
}

const json = (file: string) => JSON.parse(readFileSync(join(ROOT, file), "utf8"));
const sha256 = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");
const lines = (text: string) => text.split("\n").filter((line) => line !== "");

function pack(): Packed {
  const told = read("npm", "pack", "--json", "--pack-destination", out);
  const [packed] = JSON.parse(told.slice(told.indexOf("["))) as [Packed];
  return packed;
}

function sbomOf(name: string, lock: Lock): Sbom {
  const args = ["sbom", "--sbom-format", "cyclonedx", "--package-lock-only"];
  return sbomOfInstalled(JSON.parse(read("npm", ...args)), name, lock);
}

function gather(name: string, version: string): Facts {
  const status = tryRead("git", "status", "--porcelain");
  const lock: Lock = json("package-lock.json");
  return {
    version,
    changed: status === undefined ? undefined : lines(status),
    tags: lines(tryRead("git", "tag", "--list") ?? ""),
    changelog: readFileSync(join(ROOT, "CHANGELOG.md"), "utf8"),
    lock,
    node: {
      version: process.versions.node,
      platform: `${process.platform}-${process.arch}`,
      sha256: sha256(process.execPath),
      pinned: json("scripts/release/node-digests.json"),
    },
    baseImage: options["base-image"],
    sbom: sbomOf(name, lock),
    tests: undefined,
  };
}

/** Writes what goes beside the package; returns the names of all files of the release. */
function write(packed: Packed, facts: Facts): readonly string[] {
  const stem = packed.filename.replace(/\.tgz$/, "");
  const provenance = {
    package: packed.filename,
    integrity: packed.integrity,
    commit: tryRead("git", "rev-parse", "HEAD")?.trim(),
    clean: facts.changed?.length === 0,
    lock: `sha256:${sha256(join(ROOT, "package-lock.json"))}`,
    node: `${facts.node.version} ${facts.node.platform} sha256:${facts.node.sha256}`,
    baseImage: facts.baseImage,
  };
  const written = [packed.filename, `${stem}.cdx.json`, `${stem}.provenance.json`];
  writeFileSync(join(out, `${stem}.cdx.json`), `${JSON.stringify(facts.sbom, null, 2)}\n`);
  writeFileSync(join(out, `${stem}.provenance.json`), `${JSON.stringify(provenance, null, 2)}\n`);
  const sums = written.map((name) => `${sha256(join(out, name))}  ${name}\n`);
  writeFileSync(join(out, "SHA256SUMS"), sums.join(""));
  return [...written, "SHA256SUMS"];
}

function commandsOf(packed: Packed, { version, baseImage }: Facts): readonly string[] {
  // The name that the Dockerfile begins from stands for this very image.
  const base = `--build-context node:26-slim=docker-image://${baseImage}`;
  const image = `docker build ${base} -t tollgate:${version} .`;
  return [
    `git tag --sign v${version}`,
    ...(baseImage === undefined ? [] : [image]),
    `npm publish ${join(out, packed.filename)}`,
  ];
}

function tell(checks: readonly Check[], packed: Packed, files: readonly string[]): void {
  for (const { name, ok, why } of checks) console.log(`${ok ? "ok " : "NO "} ${name}: ${why}`);
  console.log(`\n${out}`);
  for (const file of files) console.log(`  ${file}`);
  console.log(`\n${packed.filename}: ${packed.files.length} files, ${packed.size} bytes`);
  console.log(`${packed.integrity}\n`);
}

/** The exit status. What can be refused at once is refused before anything is built or tested. */
function release(): number {
  const { name, version } = json("package.json") as { name: string; version: string };
  const found = gather(name, version);
  if (!dryRun && failedOf(judge({ ...found, tests: 0 })).length > 0) {
    return refuse(judge({ ...found, tests: 0 }));
  }
  const isTested = !dryRun || options.tests;
  const facts = isTested ? { ...found, tests: runTests() } : found;
  mkdirSync(out, { recursive: true });
  const packed = pack();
  const checks = judge(facts);
  const files = write(packed, facts);
  const commands = commandsOf(packed, facts);
  if (options.json) console.log(JSON.stringify({ version, checks, packed, files, commands, out }));
  else tell(checks, packed, files);
  return dryRun ? endDryRun(checks, commands) : publish(checks, packed, commands);
}

const failedOf = (checks: readonly Check[]) => checks.filter(({ ok }) => !ok);

/** The exit status of the first that fails. */
function runTests(): number {
  for (const script of ["ok", "test:release"]) {
    const { status } = spawnSync("npm", ["run", script], { cwd: ROOT, stdio: "inherit" });
    if (status !== 0) return status ?? 1;
  }
  return 0;
}

function refuse(checks: readonly Check[]): number {
  for (const { name, why } of failedOf(checks)) console.error(`NO  ${name}: ${why}`);
  console.error("Refused: nothing is published.");
  return 1;
}

function endDryRun(checks: readonly Check[], commands: readonly string[]): number {
  const count = failedOf(checks).length;
  console.error(count > 0 ? `A release would be refused: ${count} NO above.` : "All holds.");
  console.error(`It would go on with:\n  ${commands.join("\n  ")}`);
  return 0;
}

function publish(checks: readonly Check[], packed: Packed, commands: readonly string[]): number {
  if (failedOf(checks).length > 0) return refuse(checks);
  if (!options.publish) {
    const left = commands.join("\n  ");
    console.error(`Nothing is published without --publish. What is left to do:\n  ${left}`);
    return 0;
  }
  const args = ["publish", join(out, packed.filename)];
  return spawnSync("npm", args, { cwd: ROOT, stdio: "inherit" }).status ?? 1;
}

try {
  process.exitCode = release();
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
