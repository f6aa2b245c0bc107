import { z } from "zod";
import { parseMeterSource } from "../../core/meters/meter-source.ts";
import {
  type MeterSource,
  meterPart,
  type OperationMeter,
  PLAN_METERS_MAX,
} from "../../core/quota/meters.ts";
import { type PlanMeter, WINDOW_NAMES, type WindowName } from "../../core/quota/windows.ts";
import type { ParseResult } from "./addresses.ts";
import { limitsByLength, windowKeys } from "./plan-windows.ts";
import * as kind from "./value-types.ts";
import { optional, required } from "./value-types.ts";

/** The keys of meters, which count the cost of answers (docs/reference/meters.md). */

const HOLD_MAX = 1e9;
const SOURCES_MAX = 8;

const NAME_TITLE =
  "a name of 1 to 32 of a-z, 0-9 and -, which begins with a letter and is no window and not key";
const meterName = kind.text(
  NAME_TITLE,
  new RegExp(`^(?!(?:key|${WINDOW_NAMES.join("|")})$)[a-z][a-z0-9-]{0,31}$`),
);

/** A pointer to the whole body is empty (RFC 6901 5). */
const WHOLE_BODY = /^(?:json|sse) ?$/;
const USE_MEMBER =
  "name a member of the body, as in json /usage/total_tokens: a whole body is no source";
const USE_SOURCE = "as in header x-tokens-used, or json /usage/total_tokens (RFC 6901)";

const source = kind.read("header NAME, json POINTER or sse POINTER", {
  pattern: /^(?:header [^ ]+|(?:json|sse) \/.*)$/,
  read: (text): ParseResult<MeterSource> => {
    const value = parseMeterSource(text);
    if (value !== undefined) return { value };
    return { why: WHOLE_BODY.test(text) ? USE_MEMBER : USE_SOURCE };
  },
});

const units = kind.integer({ from: 0, to: HOLD_MAX });
const UNTOLD = "hold, max, or a whole number of units";

const operationMeter = z
  .strictObject(
    {
      hold: required(
        units,
        "Units that a request takes when it is admitted, up to `max`: what it typically uses.",
      ),
      max: required(
        kind.integer({ from: 1, to: HOLD_MAX }),
        "The most units that one request uses. An answer that tells more is charged this.",
      ),
      untold: optional(
        z.union([z.literal("hold"), z.literal("max"), units], UNTOLD).meta({ title: UNTOLD }),
        "hold",
        "What an answer takes that tells nothing; a number is `max` at most.",
      ),
      used: optional(
        z
          .array(source, "a list of sources")
          .max(SOURCES_MAX, `a list of at most ${SOURCES_MAX} sources`),
        [],
        "Where an answer tells what the request used; the first that tells a number counts.",
      ),
    },
    "a map with hold and max",
  )
  .refine(({ hold, max }) => hold <= max, {
    path: ["hold"],
    message: "a number of units up to max",
    params: { hint: "raise max, or lower hold" },
  })
  .refine(({ untold, max }) => typeof untold === "string" || untold <= max, {
    path: ["untold"],
    message: "a number of units up to max",
    params: { hint: "raise max, or lower untold" },
  });

const TOO_MANY = `a map of at most ${PLAN_METERS_MAX} meters by name`;

/** The meters of an operation, by name. */
export const operationMeters = z
  .record(meterName, operationMeter, "a map of meters by name")
  .refine(hasFewMeters, TOO_MANY)
  .meta({ maxProperties: PLAN_METERS_MAX });

const WINDOWS = `unlimited, or a map with at least one of ${WINDOW_NAMES.join(", ")}`;

/** The meters of a plan, by name. */
export const planMeters = z
  .record(
    meterName,
    z
      .union(
        [
          z.literal("unlimited"),
          windowKeys("Units of the meter")
            .refine((windows) => Object.keys(windows).length > 0, WINDOWS)
            .meta({ minProperties: 1 }),
        ],
        WINDOWS,
      )
      .meta({ title: WINDOWS }),
    "a map of meters by name",
  )
  .refine(hasFewMeters, TOO_MANY)
  .meta({ maxProperties: PLAN_METERS_MAX });

function hasFewMeters(meters: object): boolean {
  return Object.keys(meters).length <= PLAN_METERS_MAX;
}

/** The meters of an operation as they are counted. */
export function buildOperationMeters(
  meters: z.output<typeof operationMeters>,
): readonly OperationMeter[] {
  return Object.entries(meters).map(([name, { hold, max, untold, used }]) => {
    const unknown = untold === "hold" ? hold : untold === "max" ? max : untold;
    return { name, hold, max, untold: unknown, used };
  });
}

/** The meters of a plan as they are counted. One without a limit is counted by the month. */
export function buildPlanMeters(meters: z.output<typeof planMeters>): readonly PlanMeter[] {
  return Object.entries(meters).map(([name, windows]) => {
    const part = meterPart(name);
    if (windows !== "unlimited") {
      return { name, limits: limitsByLength(windows).map((limit) => ({ ...limit, part })) };
    }
    const window: WindowName = "month";
    const limit = Number.MAX_SAFE_INTEGER;
    return { name, limits: [{ window, limit, part, observed: true }] };
  });
}
