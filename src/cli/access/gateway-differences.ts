import { cleanText } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { QuotaStore } from "../../stores/quotas/quota-store.ts";
import type { ReadinessChecks } from "../../telemetry/readiness.ts";
import { originOf } from "../framework/curl.ts";
import { showWait, type Terminal, WAITING_FOR_GATEWAY } from "../framework/terminal.ts";
import { type AdminConfig, fetchAdmin } from "./admin-client.ts";
import { nameOfGateway } from "./distinct-gateways.ts";

/** The timeout of a query that the gateway can answer at once. */
const IDENTITY_MS_MAX = 5_000;

type RunningRecords = { readonly id: string | null; readonly place: string };

/**
 * The identity of the running gateway's records. Undefined if no gateway replies, or if it cannot
 * tell: then the records cannot be compared.
 */
export async function gatewayRecordsIdentity(
  config: AdminConfig,
): Promise<RunningRecords | undefined> {
  const question = { path: "/api/records", members: ["place"], withinMs: IDENTITY_MS_MAX };
  const running = await fetchAdmin<{ id?: unknown; place: unknown }>(config, question);
  if (!running.ok || typeof running.value.place !== "string") return undefined;
  const { id, place } = running.value;
  return { id: typeof id === "string" ? id : null, place: cleanText(place) };
}

/** Where the records of a command are, and where those of the gateway at `origin` are. */
export type OtherRecords = {
  readonly place: string;
  readonly running: string;
  readonly origin: string;
};

/**
 * The places of these records and of those of the running gateway. Undefined if they are the same, or
 * if no gateway can be reached. `known` are the records of the gateway if it was asked for them already.
 */
export async function findOtherRecords(
  keys: Pick<KeyStore, "refresh" | "identity">,
  config: Config,
  known?: RunningRecords,
): Promise<OtherRecords | undefined> {
  const running = known ?? (await gatewayRecordsIdentity(config));
  if (running === undefined || config.admin === undefined) return undefined;
  await keys.refresh();
  const { id, place } = await keys.identity();
  // A gateway gives its records an id when it is asked, so here they have it if they are the same.
  if (running.id === null ? place === running.place : id === running.id) return undefined;
  return { place, running: running.place, origin: originOf(config.admin.listen) };
}

/**
 * Why an answer from these records would not be about the running gateway, and a change would not
 * reach it: it uses other records, for example because its TOLLGATE_DATA is not that of this shell
 * (docs/reference/commands.md#one-set-of-records). Undefined as in `findOtherRecords`.
 */
export async function otherRecordsError(
  ...asked: Parameters<typeof findOtherRecords>
): Promise<string | undefined> {
  const other = await findOtherRecords(...asked);
  if (other === undefined) return undefined;
  const { place, running, origin } = other;
  if (place === running) {
    return (
      `Cannot use the key records in ${place}: those that the gateway at ${origin} has read in ${running} are gone. Nothing was changed. ` +
      "Put them back, or restart the gateway if it is to have others"
    );
  }
  return (
    `Cannot use the key records in ${place}: the gateway at ${origin} has others, in ${running}. Nothing was changed. ` +
    `Give the command the gateway's configuration and TOLLGATE_DATA, or ask the gateway by --admin ${origin}`
  );
}

/**
 * Why the running gateway misses records of the store, so that an empty list is not all there was.
 * Undefined if it misses none, or if no gateway can be reached.
 */
export async function recordsTrouble(
  config: AdminConfig,
  terminal: Terminal,
): Promise<string | undefined> {
  const asked = fetchAdmin<{ readonly checks: Partial<ReadinessChecks> }>(config, {
    ...{ path: "/readyz", also: [503], members: ["status", "checks"] },
    withinMs: IDENTITY_MS_MAX,
  });
  const ready = await showWait(terminal, WAITING_FOR_GATEWAY, asked);
  const why = ready.ok ? ready.value.checks.keys?.why : undefined;
  return why === undefined ? undefined : cleanText(String(why));
}

type StorePlace = { readonly store: string; readonly storePrefix: string };

/**
 * Why this store is not the one in which the running gateway counts, for example because the shell
 * has another REDIS_URL. Every gateway lists itself in its store under a name that no other has, so
 * that one store under two addresses is known as the same. Undefined if it is the same, or if that
 * is not known.
 */
export async function otherStoreError(
  { gateways }: Pick<QuotaStore, "gateways">,
  config: Config,
): Promise<string | undefined> {
  const nameNow = () => nameOfGateway(config, { withinMs: IDENTITY_MS_MAX });
  const name = await nameNow();
  if (name === undefined || config.admin === undefined) return undefined;
  const news = await gateways.list();
  if (news.some(({ status }) => status.includes(JSON.stringify(name)))) return undefined;
  // A gateway that ends in between leaves the list.
  if ((await nameNow()) !== name) return undefined;
  const question = { path: "/api/config", members: ["store", "storePrefix"] };
  const running = await fetchAdmin<StorePlace>(config, question);
  if (!running.ok) return undefined;
  const origin = originOf(config.admin.listen);
  return (
    `Cannot use the store ${ownPlace(config)}: the gateway at ${origin} has another, ${placeOf(running.value)}. Nothing was changed. ` +
    `Give the command the gateway's configuration and environment, or ask the gateway by --admin ${origin}`
  );
}

/**
 * The origin of the running gateway if its records are in Redis, at the same address and prefix as
 * those here: what is unreachable can be compared by its address alone. Undefined otherwise.
 */
export async function gatewayWithSameRecords(config: Config): Promise<string | undefined> {
  if (config.admin === undefined || config.keys.in !== "redis") return undefined;
  const running = await fetchAdmin<StorePlace & { readonly keys: unknown }>(config, {
    ...{ path: "/api/config", members: ["store", "storePrefix", "keys"] },
    withinMs: IDENTITY_MS_MAX,
  });
  if (!running.ok || running.value.keys !== "redis") return undefined;
  return placeOf(running.value) === ownPlace(config) ? originOf(config.admin.listen) : undefined;
}

function ownPlace({ store, storePrefix }: Config): string {
  return placeOf({ store: store.shown, storePrefix });
}

/** The masked address and the prefix. Another program may answer, so nothing moves the cursor. */
function placeOf({ store, storePrefix }: StorePlace): string {
  return cleanText(store === "memory" ? store : `${store}, prefix ${storePrefix}`);
}
