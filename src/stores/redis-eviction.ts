import { orLate } from "./redis-failure.ts";
import type { Link } from "./redis-link.ts";
import type { Report } from "./store.ts";

const EACH_MS = 60_000;
const LATE_MS = 2_000;

/**
 * Warns, at the start and once a minute while it changes, when Redis may throw counters away to make
 * room: an evicted account begins anew, with all of its quota. Returns how to stop.
 */
export function watchEviction(link: Link, shown: string, report: Report): () => void {
  let known = "noeviction";
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  async function look(): Promise<void> {
    for (const node of await link.masters()) {
      const info = String(await orLate(node.send("info", ["memory"]), LATE_MS));
      const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? "noeviction";
      if (policy === known) continue;
      known = policy;
      if (policy === "noeviction") continue;
      const advice = "it may drop counters and bans when memory is short: set noeviction";
      report("warn", "store_evicts", { store: shown, maxmemoryPolicy: policy, why: advice });
    }
  }

  async function again(): Promise<void> {
    // A store that is away or keeps INFO to itself is no reason to warn of this.
    await look().catch(() => undefined);
    if (!stopped) timer = setTimeout(() => void again(), EACH_MS).unref();
  }
  void link.tried.then(again);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
