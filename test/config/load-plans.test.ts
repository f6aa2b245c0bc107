import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { it } from "vitest";

const SOURCE = new URL("../../src/config/load/load-plans.ts", import.meta.url);

const PROGRAM = `
import { loadPlans } from "${SOURCE}";
const loaded = await loadPlans("/dev/stdin", {});
console.log(loaded.ok ? [...loaded.config.plans.keys()].join() : loaded.mistakes[0].message);
`;

const CONFIG = `
environments:
  production: { listen: 127.0.0.1:8080, keyTag: live, upstreams: [http://127.0.0.1:3000] }
plans: { free: { minute: 60 }, paid: { minute: 600 } }
`;

it("a whole configuration that a pipe brings is read once, and its plans are those to try", async () => {
  const program = `data:text/javascript,${encodeURIComponent(PROGRAM)}`;
  const script = `printf %s "$CONFIG" | "$0" --import "$1" -e ""`;
  const env = { ...process.env, CONFIG };
  const args = ["-c", script, process.execPath, program];
  const { stdout } = await promisify(execFile)("sh", args, { env });
  assert.equal(stdout, "free,paid\n");
});
