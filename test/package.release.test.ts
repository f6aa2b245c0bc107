import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { Check } from "../scripts/release/judge.ts";
import { startTestUpstream, type TestUpstream } from "./support/gateway/backend.ts";
import { type RunningProcess, startProgram } from "./support/gateway/processes.ts";
import { buildAlone } from "./support/one-at-a-time.ts";

const ROOT = join(import.meta.dirname, "..");
/** Building, packing and installing take their time on a machine that is busy. */
const SLOW_MS = 240_000;
const run = promisify(execFile);
/** Variables that npm sets for its scripts must not reach the npm that a user starts. */
const env: Record<string, string> = Object.fromEntries(
  Object.entries({
    ...process.env,
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
  }).filter(([name]) => !/^(?:npm_|VITEST|NODE_OPTIONS$)/i.test(name)),
);
const readme = await readFile(join(ROOT, "README.md"), "utf8");
/** The lines of the README about the package, and its program. */
const [, lines = ""] = /```sh\n(npm install .*?)```/s.exec(readme) ?? [];
const [, program = ""] = /```ts\n(.*?)```/s.exec(readme) ?? [];

type Packed = {
  readonly filename: string;
  readonly size: number;
  readonly files: { readonly path: string }[];
};

type Release = {
  readonly checks: readonly Check[];
  readonly packed: Packed;
  readonly files: readonly string[];
};

describe("the package", () => {
  let home: string;
  /** As many people name their folders. */
  let folder: string;
  let release: Release;
  let packed: Packed;
  let backend: TestUpstream;

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "tollgate-package-"));
    folder = join(home, "my gateway");
    await mkdir(folder);
    backend = await startTestUpstream();
    // A dry run packs by `npm pack`, and says what it thinks of that.
    const args = ["run", "-s", "release", "--", "--dry-run", "--json", "--out", home];
    const options = { cwd: ROOT, env, maxBuffer: 16 * 1024 * 1024 };
    const { stdout } = await buildAlone(() => run("npm", args, options));
    release = JSON.parse(stdout) as Release;
    packed = release.packed;
  }, SLOW_MS);
  afterAll(async () => {
    await backend.close();
    await rm(home, { recursive: true, force: true });
  });

  /** Runs a line as a user types it, to its end. */
  const type = (line: string) =>
    run("/bin/sh", ["-c", line], { cwd: folder, env }).catch((error) => {
      error.message += `\n${error.stdout}`;
      throw error;
    });

  async function serve(line: string, more: Record<string, string> = {}): Promise<RunningProcess> {
    const running = startProgram("/bin/sh", ["-c", `exec ${line}`], {
      cwd: folder,
      env: { PATH: env.PATH ?? "", ...more },
    });
    await running.line(({ msg }) => msg === "serving");
    return running;
  }

  it("holds built JavaScript, its types and its scripts for Redis, and no source, test or key", () => {
    const paths = packed.files.map(({ path }) => path);
    for (const path of [
      ...["dist/main.js", "dist/server/embed.js", "dist/server/embed.d.ts"],
      ...["dist/stores/quotas/redis/lua/decide.lua", "dist/admin/page/index.html", "README.md"],
      ...["dist/admin/page/main.js", "LICENSE", "examples/README.md", "docs/moving.md"],
    ]) {
      assert.ok(paths.includes(path), path);
    }
    const own =
      /^(?:dist|config|docs|examples)\/|^(?:README|CHANGELOG|SECURITY)\.md$|^LICENSE$|^package\.json$/;
    assert.deepEqual(
      paths.filter((path) => !own.test(path) || /\.(?:test\.\w?[jt]s|pem$|key$)/.test(path)),
      [],
    );
    assert.ok(packed.size < 1_000_000, `${packed.size} bytes`);
  });

  it("comes with its bill of materials, its provenance and their digests", async () => {
    const sums = await readFile(join(home, "SHA256SUMS"), "utf8");
    assert.deepEqual(
      sums.match(/\S+$/gm),
      release.files.filter((name) => name !== "SHA256SUMS"),
    );
    await run("sha256sum", ["--check", "SHA256SUMS"], { cwd: home });
    const stem = packed.filename.replace(".tgz", "");
    const sbom = JSON.parse(await readFile(join(home, `${stem}.cdx.json`), "utf8"));
    const names = sbom.components.map(({ name }: { name: string }) => name);
    const { dependencies } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
    assert.deepEqual(
      Object.keys(dependencies).filter((name) => !names.includes(name)),
      [],
    );
    assert.ok(!names.includes("vitest"), "what only tests need is not installed with it");
    const provenance = JSON.parse(await readFile(join(home, `${stem}.provenance.json`), "utf8"));
    assert.match(provenance.node, /^\d+\.\d+\.\d+ \S+ sha256:[0-9a-f]{64}$/);
    const lock = release.checks.find((check) => check.name.startsWith("package-lock.json"));
    assert.equal(lock?.ok, true, lock?.why ?? "no such check");
  });

  it(
    "is installed in an empty folder and serves, by the lines of the README",
    async () => {
      const [install, init, create, start, ...more] = lines.trim().split("\n");
      assert.deepEqual(more, []);
      assert.match(install ?? "", /^npm install \S*\.tgz$/);
      await type(`npm install --no-audit --no-fund ../${packed.filename}`);

      const { stdout: next } = await type(`${init}`.replace(/http:\S+/, backend.origin));
      assert.match(next, /^ {2}npx tollgate start$/m);
      const file = join(folder, "config/tollgate.yaml");
      const text = await readFile(file, "utf8");
      await writeFile(file, `${text.replace(":8080", ":0")}admin: { listen: "127.0.0.1:0" }\n`);

      const { stdout } = await type(`${create} --json`);
      const { key } = JSON.parse(stdout) as { key: string };
      // npm would take the signal for itself: the shell is that of the line, the program the same.
      await using gateway = await serve((start ?? "").replace("npx ", "node_modules/.bin/"));
      const { urls, admin } = await gateway.line(({ msg }) => msg === "serving");
      const url = `${(urls as Record<string, string>).production}/v1/pets`;
      const { status, headers } = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
      assert.deepEqual([status, headers.get("x-ratelimit-limit")], [200, "60"]);
      for (const path of ["/", "/page/main.js", "/page/uplot.js"]) {
        assert.equal((await fetch(admin + path)).status, 200, path);
      }
      assert.equal((await gateway.stop()).code, 0);
    },
    SLOW_MS,
  );

  it("is embedded by the program of the README, which compiles against its types", async () => {
    const checked = `${program}
const answer: Response = await fetch(\`\${gateway.urls.production}/v1/pets\`);
const reloaded: boolean = (await gateway.reload()).ok;
console.log(JSON.stringify({ status: answer.status, reloaded, msg: "embedded" }));
// @ts-expect-error: the file has to be named
start({}).catch(() => undefined);
await gateway.stop();
`;
    await writeFile(join(folder, "embed.mts"), checked);
    await mkdir(join(folder, "node_modules/@types"), { recursive: true });
    for (const name of ["@types/node", "undici-types"]) {
      await symlink(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
    }
    const options = "--module nodenext --target es2024 --strict --types node --noEmit";
    await type(`${JSON.stringify(join(ROOT, "node_modules/.bin/tsc"))} ${options} embed.mts`);

    const { stdout } = await type("node embed.mts");
    const [told] = stdout.split("\n").filter((line) => line.includes('"msg":"embedded"'));
    assert.deepEqual(JSON.parse(told ?? "{}"), { status: 401, reloaded: true, msg: "embedded" });
    assert.match(stdout, /^Clients come to http:/m);
    assert.match(stdout, /"msg":"request"/);
  });

  it("says in words why a gateway cannot be embedded", async () => {
    const text = await readFile(join(folder, "config/tollgate.yaml"), "utf8");
    await writeFile(join(folder, "broken.yaml"), `${text}nonsense: 1\n`);
    const broken = `import { start } from "tollgate";
      await start({ configFile: "broken.yaml" }).catch(({ message }) => console.log(message));`;
    await writeFile(join(folder, "broken.mjs"), broken);
    assert.match((await type("node broken.mjs")).stdout, /broken\.yaml:\d+:\d+: .*nonsense/);
  });

  it("needs no HOME, and ends with words where its folder for data cannot be used", async () => {
    const bin = "node_modules/.bin/tollgate start";
    await using gateway = await serve(bin, { HOME: "", TOLLGATE_DATA: join(home, "data") });
    assert.equal((await gateway.stop()).code, 0);
    await writeFile(join(home, "occupied"), "");
    const refused = type(`TOLLGATE_DATA=../occupied/data ${bin}`);
    await assert.rejects(refused, ({ code, stderr }: { code: number; stderr: string }) => {
      assert.match(
        stderr,
        /: Cannot use \S*\/occupied\/data\/keys.json as keys: a part of its path/,
      );
      return code === 78;
    });
  });
});
