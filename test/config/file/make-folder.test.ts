import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { makeFolder } from "../../../src/base/make-folder.ts";
import { provided } from "../../support/needing.ts";

/** /proc, in which nobody can make a folder. */
const linux = provided(process.platform === "linux", "Linux");

async function emptyFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-folders-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

it("makes a folder with those above it, and again without complaint", async () => {
  const folder = join(await emptyFolder(), "a", "b c", "d");
  await makeFolder(folder);
  await makeFolder(folder);
  assert.ok((await stat(folder)).isDirectory());
});

it("is made once by many at a time", async () => {
  const folder = join(await emptyFolder(), "a", "b");
  await Promise.all(Array.from({ length: 20 }, () => makeFolder(folder)));
  assert.ok((await stat(folder)).isDirectory());
});

it("fails where a file is in the place of the folder, or of one above it", async () => {
  const file = join(await emptyFolder(), "file");
  await writeFile(file, "");
  await expect(makeFolder(file)).rejects.toMatchObject({ code: "EEXIST" });
  await expect(makeFolder(join(file, "a", "b"))).rejects.toMatchObject({ code: "ENOTDIR" });
});

it(
  "a gateway whose data is to be where no folder can be made ends with a word on it, and spins on nothing",
  linux,
  async () => {
    const config = join(await emptyFolder(), "tollgate.yaml");
    const production = {
      listen: "127.0.0.1:0",
      basePath: "/v1",
      keyTag: "live",
      upstreams: ["http://127.0.0.1:1"],
    };
    const plans = { free: { minute: 60 } };
    await writeFile(config, JSON.stringify({ environments: { production }, plans, admin: "off" }));
    const env = { ...process.env, TOLLGATE_DATA: "/proc/tollgate/data" };
    const call = ["src/main.ts", "start", "--config", config];
    const options = { env, timeout: 30_000 };
    const running = promisify(execFile)("node_modules/.bin/node", call, options);
    const ended = await running.catch((error: { code: unknown; stderr: string }) => error);
    assert.equal("code" in ended && ended.code, 1);
    assert.match(ended.stderr, /Cannot make the directory of .*takes no folders \(ENOENT\)/);
  },
);

it.each([
  [
    ["init", "--yes", "--config", "/proc/tollgate/a.yaml"],
    /^Cannot write \/proc\/tollgate\/a\.yaml/,
  ],
  [
    ["pets", "--listen", "127.0.0.1:0", "--data", "/proc/tollgate/a.db"],
    /Cannot keep pets in \/proc\/tollgate\/a\.db: ENOENT/,
  ],
] as const)("%s ends with a word on a folder that cannot be made", linux, async (args, told) => {
  // A process that spins hears of no signal but the last one.
  const options = { timeout: 30_000, killSignal: "SIGKILL" } as const;
  const running = promisify(execFile)("node_modules/.bin/node", ["src/main.ts", ...args], options);
  const ended = await running.catch((error: { code: unknown; stderr: string }) => error);
  assert.equal("code" in ended && ended.code, 1);
  assert.match(ended.stderr, told);
});
