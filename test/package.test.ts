import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, it } from "vitest";
import { openBackend } from "./support/gateway/backend.ts";
import { startNode } from "./support/gateway/processes.ts";

const ROOT = join(import.meta.dirname, "..");
const run = promisify(execFile);
/** Variables that npm sets for its scripts must not reach the npm that a user starts. */
const env = Object.fromEntries(
  Object.entries({
    ...process.env,
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
  }).filter(([name]) => !/^(?:npm_|VITEST|NODE_OPTIONS$)/i.test(name)),
);

const configuration = (upstream: string) => `
environments:
  production: { listen: 127.0.0.1:0, basePath: /v1, keyTag: live, upstreams: ["${upstream}"] }
plans: { free: { minute: 60, day: 1000 } }
admin: { listen: 127.0.0.1:0 }
`;

const EMBEDDING = `
import { start } from "tollgate";
const lines = [];
const gateway = await start({ configFile: "tollgate.yaml", log: (line) => lines.push(line) });
const { status } = await fetch(gateway.urls.production + "/v1/pets");
await gateway.stop();
console.log(JSON.stringify({ status, logged: lines.some((line) => line.includes('"msg":"request"')) }));
`;

describe("the package", () => {
  let folder: string;
  let backend: Awaited<ReturnType<typeof openBackend>>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-package-"));
    backend = await openBackend();
    const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], {
      cwd: ROOT,
      env,
    });
    const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf("["))) as [{ filename: string }];
    await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
    await run("npm", ["install", "--no-audit", "--no-fund", `./${filename}`], { cwd: folder, env });
    await writeFile(join(folder, "tollgate.yaml"), configuration(backend.origin));
  });
  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  it("holds built JavaScript, its types and its scripts for Redis, and no source", async () => {
    const { stdout } = await run("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
      cwd: ROOT,
      env,
    });
    const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
    const paths = files.map(({ path }) => path);
    for (const path of [
      ...["dist/main.js", "dist/server/embed.js", "dist/server/embed.d.ts"],
      ...["dist/stores/redis/lua/decide.lua", "dist/admin/page/index.html", "README.md"],
      ...["dist/admin/page/main.js", "LICENSE"],
    ]) {
      assert.ok(paths.includes(path), path);
    }
    assert.deepEqual(
      paths.filter((path) => /^(?:src|test|bench|scripts|data)\//.test(path)),
      [],
    );
  });

  it("brings a command that issues a key and serves it", async () => {
    const bin = join(folder, "node_modules/.bin/tollgate");
    const config = ["--config", "tollgate.yaml"];
    const created = await run(
      bin,
      ["keys", "create", "--env", "production", "--plan", "free", "--json", ...config],
      { cwd: folder, env },
    );
    const { key } = JSON.parse(created.stdout) as { key: string };
    await using gateway = startNode([bin, "start", ...config], { cwd: folder });
    const { urls, admin } = await gateway.line(({ msg }) => msg === "serving");
    const url = `${(urls as Record<string, string>).production}/v1/pets`;
    const { status, headers } = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
    assert.deepEqual([status, headers.get("x-ratelimit-limit")], [200, "60"]);
    for (const path of ["/", "/page/main.js", "/page/uplot.js"]) {
      assert.equal((await fetch(admin + path)).status, 200, path);
    }
    assert.equal((await gateway.stop()).code, 0);
  });

  it("embeds a gateway in a program of somebody else's", async () => {
    await writeFile(join(folder, "embed.mjs"), EMBEDDING);
    const { stdout } = await run(process.execPath, ["embed.mjs"], { cwd: folder, env });
    assert.deepEqual(JSON.parse(stdout), { status: 401, logged: true });
  });

  it("says in words why a gateway cannot be embedded", async () => {
    const file = await readFile(join(folder, "tollgate.yaml"), "utf8");
    await writeFile(join(folder, "broken.yaml"), `${file}nonsense: 1\n`);
    const program = `import { start } from "tollgate";
      await start({ configFile: "broken.yaml" }).catch(({ message }) => console.log(message));`;
    await writeFile(join(folder, "broken.mjs"), program);
    const { stdout } = await run(process.execPath, ["broken.mjs"], { cwd: folder, env });
    assert.match(stdout, /broken\.yaml:\d+:\d+: .*nonsense/);
  });
});
