import { writeFileSync } from "node:fs";
import { GENERATED } from "./pages/generated.ts";

/** Writes every file that is made from the code; test/generated.test.ts holds them to it. */
for (const { path, text } of GENERATED) {
  writeFileSync(new URL(`../${path}`, import.meta.url), text());
}
