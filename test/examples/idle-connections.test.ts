import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "vitest";
import { loadConfig } from "../../src/config/load/load.ts";
import { formatDuration, parseDuration } from "../../src/config/schema/units.ts";
import { PROXIES } from "./behind-proxy.ts";
import { readExample } from "./example-file.ts";

const EXAMPLES = join(import.meta.dirname, "../../examples");
/** The time that a request may take to a gateway that is about to close the connection. */
const MARGIN_MS = 5_000;

type IdleTime = {
  /** The place in the example where the time is. */
  readonly place: RegExp;
  /** How many of these times the last of so many idle connections stays open. */
  readonly times?: (connections: number) => number;
};

const IDLE_TIMES: Readonly<Record<string, IdleTime>> = {
  nginx: { place: /upstream tollgate \{[^}]*\n\s*keepalive_timeout (\w+);/ },
  // It closes about half of them each time. With 1,000 of them the last one stayed for 13 times.
  haproxy: {
    place: /\n\s*default-server [^\n]*\bpool-purge-delay (\w+)/,
    times: (connections) => Math.ceil(Math.log2(connections)) + 3,
  },
  caddy: { place: /transport http \{[^}]*\n\s*keepalive (\w+)\n/ },
};

for (const { name, file } of PROXIES) {
  it(`${name} closes an idle connection before the gateway does, so that no POST meets a close`, async () => {
    const loaded = await loadConfig(join(EXAMPLES, name, "tollgate.yaml"), {});
    assert.ok(loaded.ok, JSON.stringify(loaded));
    const { place, times = () => 1 } = IDLE_TIMES[name] ?? assert.fail(name);
    const [, text = ""] = place.exec(readExample(`${name}/${file}`)) ?? [];
    const timeMs = parseDuration(text) ?? assert.fail(`${file} has no such time`);
    for (const { limits } of loaded.config.environments) {
      const idleMs = timeMs * times(limits.connections);
      const those = `${formatDuration(idleMs)} in front of ${formatDuration(limits.idleTimeoutMs)}`;
      assert.ok(idleMs + MARGIN_MS <= limits.idleTimeoutMs, those);
    }
  });
}
