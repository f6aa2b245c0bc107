import { readFileSync } from "node:fs";
import { pino } from "pino";

// The beginning of each peer: its options, the accounts by their keys, and a buffered access log.
export const options = JSON.parse(readFileSync(process.argv[2], "utf8"));

const accounts = new Map(options.keys.map((key, i) => [key, `account-${i}`]));

/** The account of a request, or undefined. */
export function accountOf(request) {
  const field = request.headers.authorization ?? "";
  return field.startsWith("Bearer ") ? accounts.get(field.slice(7)) : undefined;
}

const log = pino(pino.destination({ dest: options.logFile, sync: false, minLength: 8192 }));

/** Writes a line once the response is out. */
export function logged(request, response) {
  const startMs = performance.now();
  const { method, url } = request;
  response.once("finish", () => {
    const durationMs = Math.round(performance.now() - startMs);
    log.info({ method, path: url, status: response.statusCode, durationMs });
  });
}
