import type { Config } from "../../config/config.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import { originOf } from "../framework/curl.ts";
import { gatewayRecordsIdentity } from "./admin-client.ts";

/**
 * Why an answer from these records would not be about the running gateway, and a change would not
 * reach it: it uses other records, for example because its TOLLGATE_DATA is not that of this shell
 * (docs/reference/commands.md#one-set-of-records). Undefined if they are the same, or if no gateway
 * can be reached.
 */
export async function otherRecordsError(
  keys: Pick<KeyStore, "refresh" | "identity">,
  config: Config,
): Promise<string | undefined> {
  const running = await gatewayRecordsIdentity(config);
  if (running === undefined || config.admin === undefined) return undefined;
  await keys.refresh();
  const { id, place } = await keys.identity();
  // A gateway gives its records an id when it is asked, so here they have it if they are the same.
  if (running.id === null ? place === running.place : id === running.id) return undefined;
  const origin = originOf(config.admin.listen);
  if (place === running.place) {
    return (
      `Cannot use the key records in ${place}: those that the gateway at ${origin} has read in ${running.place} are gone. Nothing was changed. ` +
      "Put them back, or restart the gateway if it is to have others"
    );
  }
  return (
    `Cannot use the key records in ${place}: the gateway at ${origin} has others, in ${running.place}. Nothing was changed. ` +
    `Give the command the gateway's configuration and TOLLGATE_DATA, or ask the gateway by --admin ${origin}`
  );
}
