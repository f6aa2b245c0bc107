// Preloaded by npm's scripts: a Node that cannot run TypeScript would only say "Unknown file
// extension". main.ts itself refuses the other versions that are too old, in the same words.
import { readFileSync } from "node:fs";

if (process.features.typescript !== "strip") {
  const { engines } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  process.stderr.write(`Tollgate needs Node ${engines.node}: this is ${process.version}\n`);
  process.exit(78);
}
