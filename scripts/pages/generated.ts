import { schemaText } from "../../src/config/schema/json-schema.ts";
import { configurationReference } from "../../src/config/schema/reference.ts";
import { eventsPage } from "./events.ts";
import { logPage } from "./log.ts";
import { metricsPage } from "./metrics.ts";
import { refusalsPage } from "./refusals.ts";
import { verbsPage } from "./verbs.ts";

/** Files of the repository that are made from rows in the code, by path from the root. */
export const GENERATED: readonly { readonly path: string; readonly text: () => string }[] = [
  { path: "config/tollgate.schema.json", text: schemaText },
  { path: "docs/configuration.md", text: configurationReference },
  { path: "docs/reference/refusals.md", text: refusalsPage },
  { path: "docs/reference/log.md", text: logPage },
  { path: "docs/reference/events.md", text: eventsPage },
  { path: "docs/reference/metrics.md", text: metricsPage },
  { path: "docs/reference/verbs.md", text: verbsPage },
];
