import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { freePorts, openFolder } from "../cli/kit.ts";
import { startTollgate } from "../support/gateway/processes.ts";

/** One that takes a second or more to parse. */
function largeDescription(): string {
  const text = "x".repeat(100);
  const responses = `{ "200": { description: ${text}, content: { a: { schema: { type: string } } } } }`;
  const paths = Array.from({ length: 6_000 }, (_, i) => {
    return `  /p${i}: { get: { operationId: p${i}, responses: ${responses} } }\n`;
  });
  return `openapi: 3.1.0\npaths:\n${paths.join("")}`;
}

it("requests are answered while a reload parses a large description", async () => {
  await using folder = await openFolder();
  const [port = 0, admin = 0] = await freePorts(2);
  const file = join(folder.path, "tollgate.yaml");
  await writeFile(join(folder.path, "api.yaml"), largeDescription());
  const config = (minute: number) => `environments:
  e: { listen: "127.0.0.1:${port}", keyTag: e, basePath: /v1, api: api.yaml, upstreams: ["http://127.0.0.1:9"] }
plans: { free: { minute: ${minute} } }
admin: { listen: "127.0.0.1:${admin}" }
`;
  await writeFile(file, config(60));
  const gateway = startTollgate(["start", "--config", file]);
  try {
    await gateway.line(({ msg }) => msg === "serving");
    const ask = async () => await (await fetch(`http://127.0.0.1:${port}/v1/p1`)).text();
    await ask();
    await writeFile(file, config(61));
    await gateway.line(({ msg }) => msg === "reloading");
    const startMs = performance.now();
    let isOver = false;
    const reloaded = gateway
      .line(({ kind }) => kind === "config_reloaded")
      .finally(() => {
        isOver = true;
      });
    let longestMs = 0;
    while (!isOver) {
      const sentMs = performance.now();
      await ask();
      longestMs = Math.max(longestMs, performance.now() - sentMs);
    }
    await reloaded;
    const wholeMs = performance.now() - startMs;
    assert.ok(longestMs < wholeMs / 3, `${longestMs} ms of ${wholeMs} ms`);
  } finally {
    await gateway.stop();
  }
});
