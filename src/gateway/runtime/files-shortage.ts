import { RAISE_OPEN_FILES } from "../../base/open-files.ts";
import type { Log } from "../../telemetry/log/log.ts";

const TELL_EVERY_MS = 60_000;
/** When each gateway has last warned. */
const toldMs = new WeakMap<object, number>();

/** Warns at most once a minute that requests wait because no connection can be opened. */
export function warnOfFilesShortage(gateway: {
  readonly log: Log;
  readonly elapsed: () => number;
}): void {
  const nowMs = gateway.elapsed();
  if (nowMs - (toldMs.get(gateway) ?? Number.NEGATIVE_INFINITY) < TELL_EVERY_MS) return;
  toldMs.set(gateway, nowMs);
  gateway.log.warn("open_files_short", { why: `open files: ${RAISE_OPEN_FILES}` });
}
