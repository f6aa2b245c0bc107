import assert from "node:assert/strict";
import { it } from "vitest";
import { measureStore } from "../../bench/store/measure.ts";

it("requests at 64 connections cost the store at most a tenth of a command, floods 20 a second", async (t) => {
  const rows = await measureStore(1, () => {});
  for (const { what, commandsPerRequest, commandsPerSecond, requests } of rows) {
    const figures = `${commandsPerRequest.toFixed(4)} a request, ${commandsPerSecond.toFixed(1)} a second`;
    t.annotate(`${what}: ${requests} requests, ${figures}`);
  }
  assert.equal(rows.length, 5);
  assert.deepEqual(
    rows.filter(({ met }) => !met),
    [],
  );
});
