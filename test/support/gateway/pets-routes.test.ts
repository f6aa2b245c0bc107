import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "vitest";
import { readDescription } from "../../../src/config/description/openapi.ts";
import { PETS, SHIPPED_PETS } from "./pets-routes.ts";

test("a gateway reads the same operations from the routes for tests as from the shipped description", async () => {
  const readFrom = async (file: string) => {
    const text = await readFile(file, "utf8");
    return readDescription(text, {
      ...{ file: "pets.yaml", basePath: "/v1" },
      readFile: async () => ({ ok: false, line: 1, why: "there is no other file" }),
    });
  };
  const shipped = await readFrom(SHIPPED_PETS);
  assert.equal(shipped.operations.length, 3);
  assert.deepEqual(await readFrom(PETS), shipped);
});
