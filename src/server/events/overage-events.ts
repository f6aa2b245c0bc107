import { setTimeout as pause } from "node:timers/promises";
import { AgingMap } from "../../base/aging-map.ts";
import type { Config } from "../../config/config.ts";
import { includedOf } from "../../core/keys/usage-reports.ts";
import type { WindowUsage } from "../../core/quota/decide.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
import type { WindowName } from "../../core/quota/windows.ts";
import type { QuotaAdmin } from "../../stores/quotas/quota-store.ts";
import type { Log } from "../../telemetry/log/log.ts";

/** A gateway whose own request crossed the line has set its marker long before this is over. */
const ASK_AFTER_MS = 1_000;
/**
 * Markers outlive their window by this, because charges and questions may come late. Not by more: with
 * units included in a second, each account may set one every second.
 */
const SPARE_MS = 60_000;
/** The units included in a plan that has no overage. */
const NO_END = Number.POSITIVE_INFINITY;

type OverageEventsOptions = {
  readonly log: Log;
  readonly markFirst: QuotaAdmin["markFirst"];
  /** The store's clock, in Unix milliseconds. */
  readonly now: () => number;
};

/** The count of a window before and after a request. */
type Charged = {
  readonly window: WindowUsage;
  readonly was: number;
  readonly used: number;
};

type Owner = Readonly<Record<"environment" | "account" | "plan", string>>;

/**
 * The last that this gateway has seen of an account, in the window that ends at `resetMs`: whether its
 * overage has begun, and the units included when it had not.
 */
type Seen = {
  readonly resetMs: number;
  readonly included: number;
  readonly overage: "none" | "asked" | "told";
};

/**
 * Logs when units above those that are included in a plan begin, once in a window over all gateways
 * (docs/reference/events.md#kinds). The counts before and after a request tell it, unless a change of
 * the plan has put the account above them. Such a change is told with the first request that is admitted
 * after it, by the gateway that is first to set a marker, among those that knew the account with more
 * included.
 */
export class OverageEvents {
  readonly #options: OverageEventsOptions;
  readonly #seen = new AgingMap<Seen>();
  #planBounds: Config["planBounds"] | undefined;
  /** The windows of which any plan includes units. */
  #windows: ReadonlySet<WindowName> = new Set();

  constructor(options: OverageEventsOptions) {
    this.#options = options;
  }

  count(planBounds: Config["planBounds"], owner: Owner, { window: counted, was, used }: Charged) {
    if (planBounds !== this.#planBounds) this.#learn(planBounds);
    const { window, limit, resetMs, part, observed } = counted;
    if (!this.#windows.has(window) || observed || part !== undefined) return;
    const { environment: env, account, plan } = owner;
    const id = `${env} ${account} ${window}`;
    const included = includedOf(planBounds.get(plan)?.included ?? [], window) ?? NO_END;
    const last = this.#seen.get(id);
    const seen = last?.resetMs === resetMs ? last : undefined;
    if (used <= included) {
      const isNews = seen?.overage === "none" && seen.included !== included;
      if (seen === undefined || isNews) this.#seen.set(id, { resetMs, included, overage: "none" });
      return;
    }
    const crossed = was <= included;
    if (!crossed && seen?.overage !== "none") return;
    // With the units included that were before, a request on another gateway began it and told it.
    const isChanged = seen !== undefined && included < seen.included;
    const overage = crossed || !isChanged ? "told" : "asked";
    const next: Seen = { resetMs, included: seen?.included ?? included, overage };
    this.#seen.set(id, next);
    const reset = roundUpToSeconds(resetMs);
    const tell = () => {
      const details = { account, env, plan, window, included, used, limit, reset };
      this.#options.log.info("overage", details);
    };
    if (crossed) {
      tell();
      // Without a marker a gateway that hears of the change later may tell it once more.
      this.#mark(id, resetMs).catch(() => undefined);
    } else if (isChanged) void this.#tellFirst(id, next, tell);
  }

  async #tellFirst(id: string, asked: Seen, tell: () => void): Promise<void> {
    await pause(ASK_AFTER_MS, undefined, { ref: false });
    const { resetMs } = asked;
    const seen = this.#seen.get(id);
    if (seen?.resetMs === resetMs && seen.overage !== "asked") return;
    const isFirst = await this.#mark(id, resetMs).catch(() => undefined);
    if (isFirst) tell();
    // The store is unreachable: a later request asks.
    if (isFirst === undefined && this.#seen.get(id) === asked) {
      this.#seen.set(id, { ...asked, overage: "none" });
    }
  }

  #mark(id: string, resetMs: number): Promise<boolean> {
    const { markFirst, now } = this.#options;
    const lifeMs = Math.max(0, resetMs - now()) + SPARE_MS;
    return markFirst(`overage ${id} ${resetMs}`, lifeMs);
  }

  #learn(planBounds: Config["planBounds"]): void {
    this.#planBounds = planBounds;
    const all = [...planBounds.values()].flatMap(({ included = [] }) => included);
    this.#windows = new Set(all.map(({ window }) => window));
  }
}
