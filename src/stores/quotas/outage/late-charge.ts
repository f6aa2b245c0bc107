import { keepingPlace } from "../../redis/script.ts";
import { replyList, replyNumber } from "../../redis/store-failure.ts";
import { isAddressAccount } from "../account-ref.ts";
import { accountScript } from "../redis/account-scripts.ts";
import type { QuotaClient } from "../redis/quota-client.ts";
import { counterField } from "../redis/window-fields.ts";
import type { AccountDebt } from "./account-debt.ts";

/** The reply to a late charge, with what became of each account at `nowMs` of the store's clock. */
export type LateChargeReply = {
  readonly nowMs: number;
  readonly accounts: readonly ChargedAccount[];
};

export type ChargedAccount = {
  /** Units that no day could give back, because the day is closed. */
  readonly lostOfDay: number;
  /** The windows in the order of the debt; undefined for one that is over. */
  readonly windows: readonly (ChargedWindow | undefined)[];
};

/**
 * The count of a window. `loweredFrom` is the highest count before units were taken back, or 0.
 * `hasRefused`: the window has refused requests.
 */
export type ChargedWindow = {
  readonly used: number;
  readonly loweredFrom: number;
  readonly hasRefused: boolean;
};

/** A charge behind a settlement must find it counted. */
const LATE_CHARGE = keepingPlace(accountScript("lowered", "history", "late-charge"));

/**
 * Charges the debts of the accounts of one call, each unit to the window that it was admitted in
 * (docs/reference/store.md#late-charges). A window that is over is not charged. Nothing is charged
 * if the call reaches the store after `giveUpMs` on performance.now(). Rejects with StoreFailure.
 */
export async function chargeLate(
  {
    runOnAccounts,
    keyOf,
    historyMs = 0,
  }: Pick<QuotaClient, "runOnAccounts" | "keyOf" | "historyMs">,
  owed: readonly AccountDebt[],
  giveUpMs: number,
): Promise<LateChargeReply> {
  const keys = owed.map(({ accountRef }) => keyOf(accountRef));
  const args = [historyMs, ...owed.map(debtText)];
  const reply = replyList(await runOnAccounts(LATE_CHARGE, keys, args, giveUpMs));
  let at = 0;
  const next = () => replyNumber(reply[at++]);
  const nowMs = next();
  const accounts = owed.map(({ windows }) => ({
    lostOfDay: next(),
    windows: windows.map(() => {
      const charged = { used: next(), loweredFrom: next(), hasRefused: next() === 1 };
      return charged.used < 0 ? undefined : charged;
    }),
  }));
  return { nowMs, accounts };
}

/** See late-charge.lua. */
function debtText({ accountRef, windows, days, meters }: AccountDebt): string {
  const isKept = !isAddressAccount(accountRef);
  const dayTexts = days.map(({ day, requests, units, plan }) => {
    return `${day} ${requests} ${units}${plan === undefined ? "" : `p${plan}`}`;
  });
  const meterTexts = meters.map(({ meter, day, units }) => `#${meter} ${day} ${units}`);
  const windowTexts = windows.map(({ counter, startMs, endMs, units, chargedMs }) => {
    const end = endMs === undefined ? "" : `>${endMs}`;
    const atMs = chargedMs ?? (units < 0 ? 0 : undefined);
    const since = atMs === undefined ? "" : `~${atMs}`;
    return `${counterField(counter)} ${startMs}${end} ${units}${since}`;
  });
  const kept = isKept ? [dayTexts, meterTexts] : [[], []];
  return [...kept, windowTexts].map((texts) => texts.join(" ")).join(";");
}
