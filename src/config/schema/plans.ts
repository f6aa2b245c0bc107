import { z } from "zod";
import { WINDOW_NAMES } from "../../core/quota/windows.ts";
import { planMeters } from "./meters.ts";
import { eachWindow, windowKeys } from "./plan-windows.ts";
import * as kind from "./value-types.ts";
import { optional } from "./value-types.ts";

const NAMES = WINDOW_NAMES.join(", ");
const PLAN = `custom, or a map with at least one of ${NAMES}`;

/** `{ custom: true }` is `custom`, together with the other keys that a plan may have. */
export const plan = z
  .union(
    [
      z.literal("custom"),
      z
        .strictObject(
          {
            ...eachWindow("Units"),
            custom: z
              .preprocess((value) => (value === "true" ? true : value), z.literal(true, "true"))
              .optional()
              .meta({
                title: "true",
                description: "The windows are agreed per account; there are none here.",
              }),
            concurrent: kind.integer({ from: 1, to: 1_000_000 }).optional().meta({
              description:
                "Requests of an account under way at once, in each process; a tunnel is under way until it closes. More are 429 `too_concurrent`.",
            }),
            observe: optional(
              windowKeys("Units"),
              {},
              "Second limits that refuse nothing: what they would refuse is logged and counted, so that a limit can be tried before it holds.",
            ),
            included: optional(
              windowKeys("Units in the price"),
              {},
              "How much of a window is in the price: above it is overage, up to the limit, which usage tells, and an event when it begins.",
            ),
            meters: optional(
              planMeters,
              {},
              "Counts of what answers cost, in units of their own, by name; `unlimited` counts without a limit.",
            ),
          },
          PLAN,
        )
        .refine((value) => hasWindows(value) || "custom" in value, PLAN)
        .refine((value) => !hasWindows(value) || !("custom" in value), {
          message: "custom, or a map of windows, and not both",
          params: { hint: "remove custom, or the windows" },
        })
        // The refinements above, in a form that editors understand.
        .meta({ oneOf: [{ required: ["custom"] }, { anyOf: WINDOW_NAMES.map(required) }] }),
    ],
    PLAN,
  )
  .meta({ title: PLAN });

function required(window: string) {
  return { required: [window] };
}

function hasWindows(value: object): boolean {
  return WINDOW_NAMES.some((window) => window in value);
}
