import type { Reloaded } from "../../admin/api/routes.ts";
import type { Config } from "../../config/config.ts";
import type { Told } from "../process/status.ts";

/**
 * Between the process that watches and one that serves. A configuration goes over whole, as it was
 * read and checked: so all serve the same one, and one that is started later never sees a newer file.
 */
export type ToWorker =
  | { readonly start: Config }
  | { readonly reload: Config; readonly id: number }
  | { readonly tell: number }
  | { readonly stop: true };

export type FromWorker =
  /** Listens to messages from now on. */
  | { readonly hello: true }
  | { readonly serving: Readonly<Record<string, string>> }
  /** Cannot start, in words for people. */
  | { readonly cannot: string }
  /** Goes on with what is under way, and ends: something went wrong that nothing caught. */
  | { readonly failing: string }
  | { readonly reloaded: Reloaded; readonly id: number }
  /** `id` is that of the question; undefined for what is told unasked. */
  | { readonly told: Told; readonly id?: number };
