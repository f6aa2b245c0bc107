import { EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import type { Terminal } from "../framework/terminal.ts";
import type { Invocation } from "../framework/verb.ts";

/**
 * The key that stands in stdin, on one line; undefined where there is none, or where the argument is
 * no "-", which is said on stderr without what was found.
 */
export async function readKeyFromStdin(
  call: Invocation,
  terminal: Terminal,
): Promise<string | undefined> {
  if (call.args[0] !== "-") {
    fail(terminal, EXIT_USAGE, 'Expected "-": the key itself is read from stdin');
    return undefined;
  }
  const key = (await terminal.readIn()).trim();
  if (/^[\x21-\x7e]{8,512}$/.test(key)) return key;
  fail(terminal, EXIT_USAGE, "Expected one key in stdin, on a line of its own");
  return undefined;
}
