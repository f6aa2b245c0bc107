import { type Answer, json } from "./answer.ts";

/** `why` is read by anybody who can reach the listener: it names settings, never secrets. */
export type Check = { readonly ok: boolean; readonly why?: string };
export type Checks = Readonly<
  Record<"config" | "store" | "keys" | "upstreams" | "draining", Check>
> & {
  /** Only where several processes serve. */
  readonly workers?: Check;
};

/** 200 while all of it is well, else 503: machines read the status, people the reasons. */
export function readiness(checks: Checks): Answer {
  const ready = Object.values(checks).every(({ ok }) => ok);
  return json(ready ? 200 : 503, { status: ready ? "ready" : "not ready", checks });
}
