import { cleanText } from "../../base/messages.ts";
import { styleOf } from "./table.ts";
import type { Terminal } from "./terminal.ts";

type Line = Readonly<Record<string, unknown>>;

/** Members that every line has, or that another column shows. */
const SHOWN = new Set(["level", "time", "msg", "kind"]);

/** The formatter of log lines on a terminal; undefined elsewhere, because programs read JSON. */
export function prettyLogFormatter(terminal: Terminal): ((lines: string) => string) | undefined {
  if (!terminal.isTty) return undefined;
  const style = styleOf(terminal);
  return (lines) =>
    lines
      .split("\n")
      .map((line) => peopleLine(line, style))
      .join("\n");
}

type Style = ReturnType<typeof styleOf>;

/** Formats a JSON line for people; other lines stay as they are. */
function peopleLine(text: string, style: Style): string {
  try {
    const line = JSON.parse(text) as Line;
    const time = style.dim(new Date(Number(line.time)).toISOString().slice(11, 19));
    return `${time} ${line.msg === "request" ? requestLine(line, style) : eventLine(line, style)}`;
  } catch {
    return text;
  }
}

/** "200 GET /v1/pets  free a_8LwVnVUvnqzT  3.2 ms": a refusal has its code in place of a plan. */
function requestLine(line: Line, { bold, dim }: Style): string {
  const { status, method, path, code, plan, account, durationMs, env } = line;
  const told = [code, plan, account]
    .filter((one) => one !== undefined)
    .map(worded)
    .join(" ");
  const shown = Number(status) >= 400 ? bold(String(status)) : String(status);
  const where = env === undefined ? "" : `${env} `;
  return `${shown} ${where}${worded(method)} ${worded(path)}  ${told}  ${dim(`${durationMs} ms`)}`;
}

/** "warn  store_evicts  why: …": the name that alarms use, then every member. */
function eventLine(line: Line, { bold, dim }: Style): string {
  const { level, msg, kind } = line;
  const members = Object.entries(line)
    .filter(([name]) => !SHOWN.has(name))
    .map(([name, value]) => `${dim(`${name}:`)} ${worded(value)}`);
  const name = bold(String(kind ?? msg).replaceAll("_", " "));
  const graver = level === "info" ? "" : `${String(level)}: `;
  return `${graver}${name}  ${members.join("  ")}`.trimEnd();
}

function worded(value: unknown): string {
  return cleanText(typeof value === "string" ? value : JSON.stringify(value));
}
