import { type AnswerHead, AnswerReader } from "../../core/meters/answer-reader.ts";
import { type MeterCharge, type MeteredEnd, meterCharge } from "../../core/meters/meter-charge.ts";
import type { Exchange } from "./exchange.ts";

/**
 * Reads from the head of the upstream's answer what the request used. Returns the reader of the
 * body, if the body can tell it too. Of a body `meteredBytes` are read, or of each of its events.
 */
export function readAnswerHead(
  exchange: Exchange,
  { status, rawHeaders }: Omit<AnswerHead, "method">,
  meteredBytes: number,
): AnswerReader | undefined {
  const { meters, request } = exchange;
  if (meters.length === 0) return undefined;
  const { method } = request;
  const answerReader = new AnswerReader(meters, { method, status, rawHeaders }, meteredBytes);
  exchange.readAnswer(answerReader);
  return answerReader.readsBody ? answerReader : undefined;
}

const NONE: readonly MeterCharge[] = [];

/** The charges of a request that ended, by meter (docs/reference/meters.md#settlement). */
export function meterCharges(exchange: Exchange): readonly MeterCharge[] {
  const { meters, answerReader } = exchange;
  if (meters.length === 0) return NONE;
  const used = answerReader?.used;
  const end = endOf(exchange);
  return meters.map((meter, i) => meterCharge(meter, used?.[i], end));
}

function endOf({ forwards, isAnswerWhole, response }: Exchange): MeteredEnd {
  if (forwards === 0) return "free";
  return isAnswerWhole && response.status >= 400 ? "free" : "answered";
}
