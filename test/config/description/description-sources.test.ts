import assert from "node:assert/strict";
import { test } from "vitest";
import { DescriptionSources } from "../../../src/config/load/description-sources.ts";

test("a description that several services name is parsed once, and another one by itself", () => {
  const sources = new DescriptionSources();
  const first = sources.parse("api.yaml", "openapi: 3.1.0");
  assert.equal(sources.parse("api.yaml", "openapi: 3.1.0"), first);
  assert.deepEqual(first.tree?.value, { openapi: "3.1.0" });
  assert.deepEqual(sources.parse("other.yaml", "openapi: 3.0.0").tree?.value, { openapi: "3.0.0" });
});
