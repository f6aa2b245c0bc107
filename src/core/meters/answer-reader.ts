import { fieldValues } from "../http/head.ts";
import type { MeterSource, OperationMeter } from "../quota/meters.ts";
import { EventStreamReader } from "./event-stream-reader.ts";
import { JsonPointerReader, USED_MAX } from "./json-pointer-reader.ts";

/** The answer to a request, as far as its head tells. `rawHeaders` are names and values in turn. */
export type AnswerHead = {
  /** The method of the request. */
  readonly method: string;
  readonly status: number;
  readonly rawHeaders: readonly string[];
};

/** A part of an answer that may tell a number. */
type SourceReader = { readonly used: number | undefined };

type BodyReader = SourceReader & { read(bytes: Uint8Array): void };

/**
 * Reads what a request used from the answer to it, as the answer passes
 * (docs/reference/meters.md#used). It keeps nothing of a body.
 */
export class AnswerReader {
  /** For each meter the sources that this answer can have, in their order. */
  readonly #meters: readonly (readonly SourceReader[])[];
  readonly #bodies: BodyReader[] = [];

  /** Reads at most `meteredBytes` of a JSON body, and of each event of a stream. */
  constructor(meters: readonly OperationMeter[], head: AnswerHead, meteredBytes: number) {
    const kind = bodySource(head);
    this.#meters = meters.map(({ used }) => {
      const readers: SourceReader[] = [];
      for (const source of used) {
        const reader = openSource(source, { head, kind, meteredBytes });
        if (reader === undefined) continue;
        readers.push(reader);
        // The first source that tells a number decides, and that of a field is known.
        if (source.from === "header") break;
        this.#bodies.push(reader as BodyReader);
      }
      return readers;
    });
  }

  /** Whether the body can tell anything. */
  get readsBody(): boolean {
    return this.#bodies.length > 0;
  }

  read(bytes: Uint8Array): void {
    for (const body of this.#bodies) body.read(bytes);
  }

  /** The numbers told so far, one for each meter in order; undefined if nothing was told. */
  get used(): readonly (number | undefined)[] {
    return this.#meters.map((sources) => sources.find((one) => one.used !== undefined)?.used);
  }
}

/** Whether one of the meters is told of in a body. */
export function readsBody(meters: readonly OperationMeter[]): boolean {
  return meters.some(({ used }) => used.some(({ from }) => from !== "header"));
}

type Reading = {
  readonly head: AnswerHead;
  readonly kind: "json" | "sse" | undefined;
  readonly meteredBytes: number;
};

function openSource(
  source: MeterSource,
  { head, kind, meteredBytes }: Reading,
): SourceReader | undefined {
  if (source.from === "header") {
    const used = readField(head.rawHeaders, source.name);
    return used === undefined ? undefined : { used };
  }
  if (source.from !== kind) return undefined;
  if (kind === "sse") return new EventStreamReader(source.pointer, meteredBytes);
  return new BoundedJson(source.pointer, meteredBytes);
}

/** Reads the number of a JSON body from no more than its first bytes. */
class BoundedJson implements BodyReader {
  readonly #json: JsonPointerReader;
  #bytesLeft: number;

  constructor(pointer: readonly string[], bytesMax: number) {
    this.#json = new JsonPointerReader(pointer);
    this.#bytesLeft = bytesMax;
  }

  get used(): number | undefined {
    return this.#json.used;
  }

  read(bytes: Uint8Array): void {
    const length = Math.min(bytes.length, this.#bytesLeft);
    this.#bytesLeft -= length;
    this.#json.read(bytes, 0, length);
  }
}

const DIGITS = /^\d{1,32}$/;

/** The number in a field that is there once, in digits alone and from 0 to USED_MAX. */
function readField(raw: readonly string[], name: string): number | undefined {
  const values = fieldValues(raw, name);
  const [value = ""] = values;
  const used = Number(value);
  return values.length === 1 && DIGITS.test(value) && used <= USED_MAX ? used : undefined;
}

/** Which kind of source can read the body; undefined if it tells nothing. */
function bodySource({ method, status, rawHeaders: raw }: AnswerHead): Reading["kind"] {
  // A part of a body (RFC 9110 15.3.7) is no JSON, and the others have none.
  if (method === "HEAD" || status === 206 || status === 204 || status === 304) return undefined;
  // An empty list of codings is none (RFC 9110 5.6.1).
  const codings = fieldValues(raw, "content-encoding");
  if (!codings.every((coding) => /^(?:identity)?$/i.test(coding))) return undefined;
  const [type = "", ...others] = fieldValues(raw, "content-type");
  if (others.length > 0) return undefined;
  const media = (type.split(";")[0] as string).trim().toLowerCase();
  if (media === "text/event-stream") return "sse";
  return media === "application/json" || /^[^/\s]+\/[^/\s]+\+json$/.test(media)
    ? "json"
    : undefined;
}
