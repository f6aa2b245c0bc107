import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { it, vi } from "vitest";
import { isSameFile } from "../../src/config/file/same-file.ts";

vi.mock("node:fs", async (original) => ({ ...(await original<object>()), statSync: vi.fn() }));

it("a file that is replaced between two looks, so that another has its inode then, is not the same", () => {
  for (const [inodes, isSame] of [
    [[7n, 7n, 8n], false],
    [[7n, 7n, 7n], true],
    [[7n, 8n, 8n], false],
  ] as const) {
    const stat = vi.mocked(statSync).mockReset();
    for (const ino of inodes) stat.mockReturnValueOnce({ dev: 1n, ino } as never);
    assert.equal(isSameFile("/nowhere/a", "/nowhere/b"), isSame, String(inodes));
  }
});
