import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { configOfRunning } from "../../../src/config/load/reachable.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { openAuthority } from "../../support/wire/certificates.ts";
import { freePorts, openFolder, runVerb, writeConfig } from "../kit.ts";

const CREATE = ["keys", "create", "--env", "production", "--plan", "free"];

it("a verb reaches a gateway with TLS whose certificate is not there, and tells https and a path of its description", async () => {
  await using folder = await openFolder();
  const [production = 0, admin = 0] = await freePorts(2);
  const file = await writeConfig(folder, { production, admin });
  using authority = openAuthority();
  const { cert, key } = authority.issue(["IP:127.0.0.1"]);
  await writeFile(join(folder.path, "a.pem"), cert);
  await writeFile(join(folder.path, "b.pem"), key);
  const text = await readFile(file, "utf8");
  const withTls = "keyTag: live\n    tls: { cert: a.pem, key: b.pem }";
  await writeFile(file, text.replace("keyTag: live", withTls));
  const gateway = startTollgate(["start", "--config", file]);
  try {
    await gateway.line(({ msg }) => msg === "serving");
    await rm(join(folder.path, "a.pem"));
    for (const where of [
      ["--admin", `http://127.0.0.1:${admin}`],
      ["--config", file],
    ]) {
      const said = await runVerb([...CREATE, ...where]);
      assert.equal(said.status, 0, said.err);
      assert.match(said.out, new RegExp(`"https://127\\.0\\.0\\.1:${production}/v1/pets"\n`));
    }
  } finally {
    await gateway.stop();
  }
  const offline = await runVerb([...CREATE, "--config", file]);
  assert.equal(offline.status, 0, offline.err);
  assert.match(offline.err, /Cannot read the file .*a\.pem of environments\.production\.tls\.cert/);
  assert.match(offline.out, /https:.*\/v1\/"\n/);
});

it("a path of a gateway is in the line of a new key only if a shell can be given it", async () => {
  const admin = { listen: { host: "127.0.0.1", port: 9 }, token: "", hosts: [] };
  const operation = { method: "GET", template: "/v1/a", lifecycle: { deprecated: false } };
  for (const [operations, path] of [
    [[operation], "/v1/a"],
    [[{ ...operation, template: "/v1/a\nb" }, { method: "GET" }, 7, operation], "/v1/a"],
    [[{ ...operation, template: "/v1/{a}" }], undefined],
    ["all", undefined],
  ] as const) {
    const production = { listen: "127.0.0.1:1", keyTag: "live", upstreams: ["http://h"] };
    const running = { plans: { free: { minute: 1 } }, environments: { production } };
    const told = { ...running, environments: { production: { ...production, operations } } };
    const config = await configOfRunning(told, admin);
    assert.equal(config?.environments[0]?.examplePath, path);
  }
});

it("a gateway whose environment has the port of the default admin listener is reached", async () => {
  const admin = { listen: { host: "127.0.0.1", port: 9 }, token: "", hosts: [] };
  const production = { listen: "127.0.0.1:9090", keyTag: "live", upstreams: ["http://h"] };
  const running = { plans: { free: { minute: 1 } }, environments: { production } };
  const config = await configOfRunning(running, admin);
  assert.equal(config?.environments[0]?.listen.port, 9090);
  assert.deepEqual(config?.admin, admin);
});

it("a variable of telemetry that is malformed keeps no verb from the records", async () => {
  await using folder = await openFolder();
  const file = await writeConfig(folder);
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" };
  const listed = await runVerb(["keys", "list", "--config", file], { env });
  assert.equal(listed.status, 0, listed.err);
  assert.match(listed.err, /Cannot read OTEL_EXPORTER_OTLP_ENDPOINT/);
  assert.equal((await runVerb(["check", "--config", file], { env })).status, 78);
});
