import { writeFileSync } from "node:fs";
import { schemaText } from "../../src/config/schema/json-schema.ts";
import { configurationReference } from "../../src/config/schema/reference.ts";

/** Writes what is generated from the shape; current.test.ts holds the committed files to it. */
writeFileSync(new URL("../../config/tollgate.schema.json", import.meta.url), schemaText());
writeFileSync(new URL("../../docs/configuration.md", import.meta.url), configurationReference());
