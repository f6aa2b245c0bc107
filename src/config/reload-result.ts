import type { Mistake } from "./file/mistake.ts";

/**
 * The outcome of a reload. `reasons` say why a configuration without mistakes was refused, such as a
 * change that needs a restart or a plan in use that it drops (docs/configuration.md#reload); if
 * `partly`, which processes do not have it.
 */
export type ReloadResult =
  | { readonly ok: true; readonly hash: string }
  | {
      readonly ok: false;
      readonly mistakes: readonly Mistake[];
      readonly reasons?: readonly string[];
      /** It is in force, but not in every process. Processes that cannot use it are replaced. */
      readonly partly?: true;
    };
