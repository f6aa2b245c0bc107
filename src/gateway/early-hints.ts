import { responseFields } from "../core/http/fields.ts";
import type { Admitted } from "./forward/backend-request.ts";
import { replacedFor } from "./stages/reply.ts";

/** Ahead of one response, at most (edge.md, Response back). */
const HINTS_MAX = 8;

/** Passes on the 103s of a backend, to clients that know of them; what else is interim is dropped. */
export class EarlyHints {
  #passed = 0;

  pass({ exchange, head }: Admitted, status: number, raw: readonly string[]): void {
    if (status !== 103 || head.version !== "1.1" || this.#passed >= HINTS_MAX) return;
    this.#passed += 1;
    const fields = responseFields(raw, { replaced: replacedFor(exchange), status });
    exchange.response.writeInformation(status, fields);
  }
}
