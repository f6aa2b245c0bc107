import { readFileSync } from "node:fs";
import { defineScript, defineTaggedScript, type Script } from "../../redis/script.ts";
import { WINDOWS_IN_LUA } from "./window-fields.ts";

/**
 * A script made of the named files of lua/, after the parts that every script of accounts shares.
 */
export function accountScript(...files: readonly string[]): Script {
  return defineTaggedScript(
    [WINDOWS_IN_LUA, ...["time", "day", "window", "account", ...files].map(textOf)].join("\n"),
  );
}

function textOf(file: string): string {
  return readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8");
}

/**
 * Decides accounts: see lua/decide.lua. Redis runs the whole text of a script for each call, so what
 * only a few calls need is inside a function that these run (docs/decisions/hot-path.md).
 */
export const DECIDE_SCRIPT = defineScript(
  [
    WINDOWS_IN_LUA,
    ...["time", "day", "window", "plans"].map(textOf),
    "local function careful()",
    ...["account", "lowered", "history", "ban-cause", "decide"].map(textOf),
    "return decider(), remember",
    "end",
    textOf("charge"),
  ].join("\n"),
);

/** Sets running windows to 0: see lua/reset.lua. */
export const RESET_SCRIPT = accountScript("lowered", "reset");

/** Bans an account by hand: see lua/ban.lua. */
export const BAN_SCRIPT = accountScript("ban-cause", "ban");

/** Ends a ban by hand: see lua/lift-ban.lua. */
export const LIFT_BAN_SCRIPT = accountScript("ban-cause", "lift-ban");
