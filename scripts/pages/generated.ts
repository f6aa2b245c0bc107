import { readFileSync } from "node:fs";
import { schemaText } from "../../src/config/schema/json-schema.ts";
import { configurationPage } from "./configuration.ts";
import { eventsPage } from "./events.ts";
import { logPage } from "./log.ts";
import { metricsPage } from "./metrics.ts";
import { PLACED, withPlace } from "./places.ts";
import { refusalsPage } from "./refusals.ts";
import { verbsPage } from "./verbs.ts";

type GeneratedFile = { readonly path: string; readonly text: () => string };

const ROWS: readonly GeneratedFile[] = [
  { path: "docs/configuration.md", text: configurationPage },
  { path: "docs/reference/refusals.md", text: refusalsPage },
  { path: "docs/reference/log.md", text: logPage },
  { path: "docs/reference/events.md", text: eventsPage },
  { path: "docs/reference/metrics.md", text: metricsPage },
  { path: "docs/reference/verbs.md", text: verbsPage },
];

/** Files of the repository that are made from rows in the code, by path from the root. */
export const GENERATED: readonly GeneratedFile[] = [
  { path: "config/tollgate.schema.json", text: schemaText },
  ...PLACED.map((path) => ({ path, text: () => withPlace(path, bodyOf(path), titleOf) })),
];

/** The text of a page: made from rows, or as people have written it. */
function bodyOf(path: string): string {
  return ROWS.find((row) => row.path === path)?.text() ?? read(path);
}

function titleOf(path: string): string {
  return /^# (.+)$/m.exec(bodyOf(path))?.[1] ?? path;
}

function read(path: string): string {
  return readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
}
