import assert from "node:assert/strict";
import cluster from "node:cluster";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { openFolder } from "../../cli/kit.ts";

const SOURCE = join(import.meta.dirname, "../../../src/server/workers/messages.ts");
/** More than the system holds for a channel whose reader is busy. */
const CHARACTERS = 8 * 1024 ** 2;
const PROGRAM = `import { openChannel } from ${JSON.stringify(SOURCE)};
await openChannel().send({ failing: "x".repeat(${CHARACTERS}) });
process.exit(0);`;

it("a message is sent when its promise says so: a worker that ends then loses none of it", async () => {
  await using folder = await openFolder();
  const exec = join(folder.path, "worker.mjs");
  await writeFile(exec, PROGRAM);
  cluster.setupPrimary({ exec, args: [], serialization: "advanced" });
  const worker = cluster.fork();
  const lengths: number[] = [];
  worker.on("message", ({ failing }) => lengths.push(failing.length));
  await once(worker.process, "close");
  assert.deepEqual(lengths, [CHARACTERS]);
});
