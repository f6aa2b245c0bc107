import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { COMPILED, emptyIfLarge } from "./compiled-code.ts";

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-compiled-"));
  try {
    await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

describe("the folder of compiled code", () => {
  it("is the one that tests and their processes use, by which a run that they start knows it", () => {
    assert.equal(process.env.NODE_COMPILE_CACHE, COMPILED);
  });

  it("is emptied where it has more than so many files, and is left as it is where it has as many", async () => {
    await withFolder(async (folder) => {
      await mkdir(join(folder, "v1"));
      for (const name of ["a", "b"]) await writeFile(join(folder, "v1", name), "");
      await emptyIfLarge(folder, 3);
      assert.equal((await readdir(folder, { recursive: true })).length, 3);
      await emptyIfLarge(folder, 2);
      assert.deepEqual(await readdir(folder).catch(() => []), []);
    });
  });

  it("is emptied without an error while others write there", async () => {
    await withFolder(async (folder) => {
      let written = 0;
      let isOver = false;
      const write = async (name: number) => {
        while (!isOver) {
          await mkdir(join(folder, "v1"), { recursive: true });
          await writeFile(join(folder, "v1", `${name}-${written}`), "").then(
            () => (written += 1),
            () => undefined,
          );
        }
      };
      const writers = Array.from({ length: 8 }, (_, i) => write(i));
      try {
        for (let i = 0; i < 100; i++) await emptyIfLarge(folder, 0);
      } finally {
        isOver = true;
        await Promise.allSettled(writers);
      }
      assert.ok(written > 0);
    });
  });
});
