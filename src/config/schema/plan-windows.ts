import { z } from "zod";
import {
  type Limit,
  WINDOW_NAMES,
  WINDOW_ROWS,
  type WindowName,
  windowRow,
} from "../../core/quota/windows.ts";
import * as kind from "./value-types.ts";

const NAMES = WINDOW_NAMES.join(", ");

/** Whether client addresses may be counted in a window: they come and go, so it has to be short. */
export function fitsAddresses(window: WindowName): boolean {
  return windowRow(window).lengthMs <= 3_600_000;
}

/** "an hour at most (second, minute, hour)". */
export const ADDRESS_WINDOWS = `an hour at most (${WINDOW_NAMES.filter(fitsAddresses).join(", ")})`;

/** Windows are aligned to UTC (docs/reference/http.md#windows). */
export function eachWindow(counted: string) {
  const keys = WINDOW_ROWS.map(({ name, begins }) => {
    const description = `${counted} in each ${name}${begins}.`;
    return [name, kind.requestLimit.optional().meta({ description })];
  });
  return Object.fromEntries(keys) as Record<WindowName, z.ZodOptional<typeof kind.requestLimit>>;
}

/** `counted` names for people the things that the window counts, such as requests. */
export function windowKeys(counted: string) {
  return z.strictObject(eachWindow(counted), `a map of ${NAMES} to limits`);
}

/** From the shortest window to the longest, whatever the order in the file. */
export function limitsByLength(
  windows: { readonly [W in WindowName]?: number | undefined },
): Limit[] {
  return WINDOW_NAMES.flatMap((window) => {
    const limit = windows[window];
    return limit === undefined ? [] : [{ window, limit }];
  });
}
