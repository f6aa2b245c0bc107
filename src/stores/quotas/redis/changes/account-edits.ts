import { errorMessage } from "../../../../base/messages.ts";
import type { Ban } from "../../../../core/quota/bans.ts";
import { calendarText } from "../../../../core/quota/calendar.ts";
import type { RedisArgument } from "../../../redis/link.ts";
import type { Script } from "../../../redis/script.ts";
import { replyList, replyNumber, withTimeout } from "../../../redis/store-failure.ts";
import { type AccountRef, bucketOf } from "../../account-ref.ts";
import type { BanCause, ImposedBan, ResetScope, ResetWindow } from "../../admin-changes.ts";
import type { OnMissing } from "../../quota-store.ts";
import { banCauseKey } from "../account-key.ts";
import { BAN_SCRIPT, LIFT_BAN_SCRIPT, RESET_SCRIPT } from "../account-scripts.ts";
import { type QuotaClient, REPLY_LATE_MS } from "../quota-client.ts";
import { parseBanCause } from "../stored-bans.ts";
import { counterField, fieldCounter } from "../window-fields.ts";
import type { AccountChanges } from "./account-changes.ts";
import { EVENTS_BUCKET } from "./pending-events.ts";

/**
 * The changes that people make of one account by hand: a ban, its lifting, a reset. Each is made in
 * the store first and then told to all gateways, so that a gateway never forgets what still holds.
 * Each rejects with a StoreFailure where the store does not answer within two seconds, and a call that
 * runs later does nothing, because its change would be told by no event.
 */
export class AccountEdits {
  readonly #quotaClient: QuotaClient;
  readonly #changes: AccountChanges;
  /** The address of the store, without its password. */
  readonly #shown: string;

  constructor(quotaClient: QuotaClient, changes: AccountChanges, shown: string) {
    this.#quotaClient = quotaClient;
    this.#changes = changes;
    this.#shown = shown;
  }

  async ban(accountRef: AccountRef, imposed: ImposedBan, onMissing?: OnMissing): Promise<Ban> {
    const { lengthMs, window, keptMs, plan, reason } = imposed;
    const args = [Math.round(lengthMs), counterField(window), Math.round(keptMs), reason];
    const reply = replyList(await this.#run(BAN_SCRIPT, accountRef, args));
    const [atMs, untilMs, offences] = reply.map(Number) as [number, number, number];
    const told = { untilMs, offences, window, plan, reason };
    await this.#tellReachable(onMissing, () => {
      return this.#changes.tellEverywhere({ accountRef, atMs, imposed: told });
    });
    return { untilMs, lengthMs, window, offences };
  }

  async banCause(accountRef: AccountRef): Promise<BanCause | undefined> {
    const key = banCauseKey(this.#quotaClient.keyOf(accountRef));
    const text = await this.#quotaClient.ask("hget", key, ["c"]);
    return typeof text === "string" ? parseBanCause(text) : undefined;
  }

  async liftBan(accountRef: AccountRef, onMissing?: OnMissing, isLost = false): Promise<boolean> {
    const lifted = replyNumber(await this.#run(LIFT_BAN_SCRIPT, accountRef, []));
    const atMs = Math.abs(lifted);
    await this.#tellReachable(onMissing, () => {
      // A gateway may keep a ban that was earned while the store was away: it forgets that as well.
      if (lifted < 0 && !isLost) return this.#changes.liftEverywhere(accountRef, atMs);
      return this.#changes.tellEverywhere({ accountRef, atMs, imposed: undefined });
    });
    return lifted > 0;
  }

  async reset(
    accountRef: AccountRef,
    { counters, calendar }: ResetScope,
    onMissing?: OnMissing,
  ): Promise<ResetWindow[]> {
    if (counters?.length === 0) return [];
    const fields = [calendarText(calendar), ...(counters?.map(counterField) ?? [])];
    const [atMs, ...reply] = replyList(await this.#run(RESET_SCRIPT, accountRef, fields));
    const windows: ResetWindow[] = [];
    for (let i = 0; i < reply.length; i += 2) {
      const counter = fieldCounter(reply[i] as string);
      windows.push({ counter, units: Number(reply[i + 1]) });
    }
    await this.#tellReachable(onMissing, () => {
      if (windows.length === 0) return this.#changes.invalidateEverywhere(accountRef);
      return this.#changes.tellEverywhere({ accountRef, atMs: Number(atMs), windows });
    });
    return windows;
  }

  /** Asks for the time first if the clock is not known, as in a command, because the call has a deadline. */
  async #run(
    script: Script,
    accountRef: AccountRef,
    args: readonly RedisArgument[],
  ): Promise<unknown> {
    const { ensureClock, keyOf, runOnAccounts } = this.#quotaClient;
    const giveUpMs = performance.now() + REPLY_LATE_MS;
    await ensureClock(bucketOf(accountRef), REPLY_LATE_MS);
    const leftMs = Math.max(0, giveUpMs - performance.now());
    const reply = runOnAccounts(script, [keyOf(accountRef)], args, giveUpMs);
    return withTimeout(reply, leftMs, REPLY_LATE_MS);
  }

  /**
   * Tells gateways of a change that was made. If that fails, the change is done all the same, and the
   * part of the store that carries the message is missing.
   */
  async #tellReachable(onMissing: OnMissing | undefined, tell: () => Promise<void>): Promise<void> {
    try {
      await tell();
    } catch (error) {
      if (onMissing === undefined) throw error;
      const part = this.#quotaClient.link.partOf(EVENTS_BUCKET) ?? {
        node: this.#shown,
        buckets: [],
      };
      onMissing({ ...part, why: errorMessage(error) });
    }
  }
}
