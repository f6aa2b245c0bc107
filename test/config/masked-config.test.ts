import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { loadConfig } from "../../src/config/load/load.ts";
import { maskedConfig } from "../../src/config/queries/masked-config.ts";
import { formatDuration, parseDuration } from "../../src/config/schema/units.ts";
import { openFolder } from "../cli/kit.ts";
import { loadLines } from "./folder.ts";

it("an environment is shown by the keys of the file whatever its name is", async () => {
  await using folder = await openFolder();
  const file = join(folder.path, "tollgate.yaml");
  const shownAs = async (name: string) => {
    const environment = "{ listen: 127.0.0.1:0, keyTag: live, upstreams: [http://127.0.0.1:1] }";
    await writeFile(file, `environments: { ${name}: ${environment} }\nplans: { a: { day: 1 } }\n`);
    const loaded = await loadConfig(file, {});
    assert.ok(loaded.ok);
    const { environments } = maskedConfig(loaded.config) as { environments: object };
    return Object.values(environments);
  };
  assert.deepEqual(await shownAs("operations"), await shownAs("production"));
});

it("durations are shown by the keys of the file and with their unit, instants as they are", async () => {
  await using folder = await openFolder();
  const file = join(folder.path, "tollgate.yaml");
  const pets = join(import.meta.dirname, "../../config/pets.openapi.yaml");
  await writeFile(
    file,
    `environments:
  production:
    listen: 127.0.0.1:0
    keyTag: live
    api: ${pets}
    upstreams: [http://127.0.0.1:1]
    healthCheck: { path: /healthz, every: 90s }
    maintenance: { retryAfter: 30m }
    limits: { idleTimeout: 1500ms, connectRetry: 0s }
    backends: [{ path: /v1/x, upstreams: [http://127.0.0.1:2], limits: { responseTimeout: 120s } }]
plans: { free: { minute: 60 } }
bans: { max: 36h }
history: 400d
storeTimeout: 70ms
`,
  );
  const loaded = await loadConfig(file, {});
  assert.ok(loaded.ok);
  const text = JSON.stringify(maskedConfig(loaded.config));
  const shown = JSON.parse(text);
  const { healthCheck, maintenance, limits, backends, operations } = shown.environments.production;
  assert.deepEqual(
    [shown.history, shown.storeTimeout, shown.bans.max, shown.bans.grace, healthCheck.every],
    ["400d", "70ms", "36h", "1s", "90s"],
  );
  assert.deepEqual(
    [maintenance.retryAfter, limits.idleTimeout, limits.connectRetry, limits.bodyBytes],
    ["30m", "1500ms", "0s", 1_048_576],
  );
  assert.equal(backends[0].limits.responseTimeout, "2m");
  assert.ok(JSON.stringify(operations).includes(`"sunsetMs":${Date.UTC(2030, 11, 5)}`));
  assert.equal(text.replace(JSON.stringify(operations), "").match(/\w+Ms"/), null);
});

it("the query of a health check's path is ***, as a token may be in it, and a path without one is whole", async () => {
  const check = (path: string) => `healthCheck: { path: "${path}" }`;
  const config = await loadLines(
    `environments:
  production:
    listen: 127.0.0.1:0
    keyTag: live
    upstreams: [http://127.0.0.1:1]
    ${check(`/healthz?token=\${HEALTH}`)}
    backends: [{ path: /v1/x, upstreams: [http://127.0.0.1:2], ${check("/up")} }]
`,
    { HEALTH: "canary" },
  );
  const { environments } = JSON.parse(JSON.stringify(maskedConfig(config)));
  const { healthCheck, backends } = environments.production;
  assert.deepEqual(healthCheck, { path: "/healthz?***", every: "5s" });
  assert.deepEqual(backends[0].healthCheck, { path: "/up", every: "5s" });
});

it("plans, public routes, events and an admin token are shown in the form of the file, secrets as ***", async () => {
  for (const token of ["", "canary".repeat(6)]) {
    const config = await loadLines(`admin: { token: "${token}" }
environments:
  production: { listen: 127.0.0.1:0, keyTag: live, upstreams: [http://127.0.0.1:1], public: free, publicRoutes: ["GET /v1/{id}"] }
plans: { free: { minute: 60 }, agreed: custom, some: { custom: true, concurrent: 20 } }
events: { url: "https://hooks.test/canary", secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY= }
telemetry: { otlp: "https://collector.test/canary" }
`);
    const shown = JSON.parse(JSON.stringify(maskedConfig(config)));
    assert.equal(shown.admin.token, token === "" ? "" : "***");
    assert.deepEqual(shown.plans, {
      free: { minute: 60 },
      agreed: "custom",
      some: { custom: true, concurrent: 20 },
    });
    assert.deepEqual(shown.environments.production.publicRoutes, ["GET /v1/{id}"]);
    assert.deepEqual([shown.events.url, shown.events.secret], ["https://hooks.test/***", "***"]);
    assert.equal(shown.telemetry.otlp, "https://collector.test/***");
    assert.ok(!("quotaEventWindows" in shown) && !("planBounds" in shown));
  }
});

it("a duration is written as one that reads the same, in the largest unit that fits", () => {
  const texts = ["0s", "1ms", "999ms", "1s", "59s", "1m", "90s", "1h", "36h", "1d", "400d"];
  for (const text of texts) assert.equal(formatDuration(parseDuration(text) ?? Number.NaN), text);
  assert.equal(formatDuration(60_001), "60001ms");
});
