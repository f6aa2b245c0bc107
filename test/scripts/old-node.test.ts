import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "vitest";
import { startNode } from "../support/gateway/processes.ts";

const PRELOADED = ["--import", "./scripts/old-node.mjs", "src/main.ts", "--version"];
const ROOT = join(import.meta.dirname, "../..");

it("a Node that cannot run TypeScript is refused in one line, with exit status 78", async () => {
  const old = startNode(["--no-strip-types", ...PRELOADED], { cwd: ROOT });
  const { code, stdout, stderr } = await old.exited;
  assert.deepEqual([code, stdout], [78, ""]);
  assert.match(stderr, /^Tollgate needs Node >=.*: this is v[\d.]+\n$/);
});

it("one that can is let through, and says nothing of it", async () => {
  const { code, stdout, stderr } = await startNode(PRELOADED, { cwd: ROOT }).exited;
  assert.deepEqual([code, stderr], [0, ""]);
  assert.match(stdout, /^tollgate /);
});
