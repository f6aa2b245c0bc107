import type { MeterSource } from "../quota/meters.ts";

const FIELD_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
/** RFC 6901 3: `~` stands only before 0 or 1. The whole body, "", is no place for a number. */
const POINTER = /^(?:\/(?:[^/~]|~[01])*)+$/u;

/** The source as the configuration names it. */
export function formatMeterSource(source: MeterSource): string {
  if (source.from === "header") return `header ${source.name}`;
  const names = source.pointer.map((name) => name.replaceAll("~", "~0").replaceAll("/", "~1"));
  return `${source.from} ${names.map((name) => `/${name}`).join("")}`;
}

/** Parses `header NAME`, `json POINTER` or `sse POINTER`; undefined if it is none of them. */
export function parseMeterSource(text: string): MeterSource | undefined {
  const space = text.indexOf(" ");
  const from = text.slice(0, Math.max(0, space));
  const rest = text.slice(space + 1);
  if (from === "header" && FIELD_NAME.test(rest)) return { from, name: rest.toLowerCase() };
  if ((from !== "json" && from !== "sse") || !POINTER.test(rest)) return undefined;
  const names = rest.slice(1).split("/");
  return { from, pointer: names.map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~")) };
}
