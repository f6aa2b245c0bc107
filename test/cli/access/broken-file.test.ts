import assert from "node:assert/strict";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import {
  freePorts,
  jsonOf,
  openFolder,
  type RunVerbOptions,
  runVerb,
  type Settings,
  writeConfig,
} from "../kit.ts";

const TOKEN = "a-token-of-the-admin-listener-0123456789";

/** A gateway that runs, and one key of an account on it. */
async function openRunning(settings: Settings) {
  const folder = await openFolder();
  const backend = await startTestUpstream();
  const [production = 0, admin = 0] = await freePorts(2);
  const productionUpstream = Number(new URL(backend.origin).port);
  const ports = { production, admin, productionUpstream };
  const file = await writeConfig(folder, { ...settings, ...ports });
  const gateway = startTollgate(["start", "--config", file]);
  await gateway.line(({ msg }) => msg === "serving");
  const create = ["keys", "create", "--env", "production", "--plan", "free", "--account", "acme"];
  const made = await runVerb([...create, "--json", "--config", file]);
  const { id, key } = jsonOf<{ id: string; key: string }>(made);
  const ask = async () => {
    const headers = { Authorization: `Bearer ${key}`, Connection: "close" };
    return (await fetch(`http://127.0.0.1:${production}/v1/pets`, { headers })).status;
  };
  const close = async () => {
    await gateway.stop();
    await backend[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  };
  return { file, id, key, ask, admin: `http://127.0.0.1:${admin}`, close };
}

type Running = Awaited<ReturnType<typeof openRunning>>;

/** Every emergency verb, one after the other, in the ways that a call may take. */
async function emergency(running: Running, where: readonly string[], options: RunVerbOptions = {}) {
  const { id, key, ask } = running;
  const run = async (...args: string[]) => {
    const said = await runVerb([...args, ...where], options);
    assert.equal(said.status, 0, `${args.join(" ")}: ${said.err}`);
    return said;
  };
  /** At once, unless the command says that the gateway could not be asked in time. */
  const expectStatus = async (status: number, { out, err }: { out: string; err: string }) => {
    if (!`${out}${err}`.includes("takes effect within a second")) {
      assert.equal(await ask(), status);
    } else await eventually(async () => assert.equal(await ask(), status));
  };
  assert.equal(await ask(), 200);
  assert.match((await run("usage", "acme")).out, /minute/);
  assert.match((await run("plans", "list")).out, /^pro /m);
  await expectStatus(403, await run("accounts", "suspend", "acme", "--reason", "leaked"));
  await run("accounts", "resume", "acme");
  await run("bans", "add", id, "--for", "1h");
  assert.match((await run("bans", "list")).out, /acme/);
  assert.equal(await ask(), 429);
  await run("bans", "why", "acme");
  await run("bans", "lift", "acme");
  await run("accounts", "reset", "acme");
  await run("accounts", "set", "acme", "--plan", "pro");
  assert.match((await run("accounts", "show", "acme")).out, /pro/);
  const made = await run("keys", "create", "--env", "production", "--plan", "free", "--json");
  assert.match(jsonOf<{ key: string }>(made).key, /_live_/);
  assert.match((await run("keys", "list")).out, new RegExp(id));
  assert.equal(await ask(), 200);
  const found = await runVerb(["keys", "find", "-", ...where], { ...options, stdin: key });
  assert.match(found.out, new RegExp(`^${id}\\n`), found.err);
  const revoked = await runVerb(["keys", "revoke", "-", ...where], { ...options, stdin: key });
  assert.equal(revoked.status, 0, revoked.err);
  await expectStatus(401, revoked);
}

describe("a verb on a running gateway, with a mistake in its file", () => {
  for (const store of ["memory", "redis"] as const) {
    it(`warns of the mistake at its place and does its work, with store: ${store}`, async () => {
      const redis = store === "redis" ? await startRedis() : undefined;
      const settings = redis === undefined ? {} : { store: redis.url, keys: "redis" };
      const running = await openRunning(settings);
      try {
        await appendFile(running.file, "plams: { free: { minute: 1 } }\nlog: { level: loud }\n");
        const said = await runVerb(["bans", "list", "--config", running.file]);
        assert.equal(said.status, 0, said.err);
        assert.match(said.err, /tollgate\.yaml:\d+:1: Cannot use plams: .* did you mean plans\?/);
        assert.match(said.err, /tollgate\.yaml:\d+:15: Cannot read log\.level/);
        await emergency(running, ["--config", running.file]);
        const status = await runVerb(["status", "--config", running.file]);
        assert.match(status.out, /not reloaded: .*tollgate\.yaml:\d+:1$/m);
      } finally {
        await running.close();
        await redis?.close();
      }
    });
  }

  for (const store of ["memory", "redis"] as const) {
    it(`goes by the plans of a gateway that refused to drop one, with store: ${store}`, async () => {
      const redis = store === "redis" ? await startRedis() : undefined;
      const settings = redis === undefined ? {} : { store: redis.url, keys: "redis" };
      const running = await openRunning(settings);
      const where = ["--config", running.file];
      try {
        const text = await readFile(running.file, "utf8");
        await writeFile(running.file, text.replace(/^ {2}free:/m, "  other:"));
        await runVerb(["reload", ...where]);
        const issue = ["keys", "create", "--env", "production", "--plan"];
        const strange = await runVerb([...issue, "other", ...where]);
        assert.equal(strange.status, 64);
        assert.match(strange.err, /not reloaded: accounts with working keys have a plan/);
        assert.match(strange.err, /plan "other" as it is unknown: expected free, pro/);
        await emergency(running, where);
        const status = await runVerb(["status", ...where]);
        assert.match(status.out, /in force +\w{8} {2}not the file as it is now/);
        assert.equal(status.err, "");
      } finally {
        await running.close();
        await redis?.close();
      }
    });
  }

  it("goes by the plans of a gateway that refused a reload also while it is not ready", async () => {
    const redis = await startRedis();
    const running = await openRunning({ store: redis.url });
    try {
      const where = ["--config", running.file];
      const text = await readFile(running.file, "utf8");
      await writeFile(running.file, text.replace(/^ {2}free:/m, "  other:"));
      await runVerb(["reload", ...where]);
      await redis.close();
      const ready = async () => (await fetch(`${running.admin}/readyz`)).status;
      await eventually(async () => assert.equal(await ready(), 503));
      const issue = ["keys", "create", "--env", "production", "--plan", "other", ...where];
      const strange = await runVerb(issue);
      assert.equal(strange.status, 64, strange.err);
      assert.match(strange.err, /not reloaded: accounts with working keys have a plan/);
    } finally {
      await running.close();
    }
  });

  it("changes imported records through --admin, and exports them without their import", async () => {
    const running = await openRunning({});
    try {
      const exported = await runVerb(["keys", "export", "--config", running.file]);
      const digest = /"digest":"(\w+)"/.exec(exported.out)?.[1] ?? "";
      const lines = exported.out
        .replaceAll("acme", "umbrella")
        .replaceAll(running.id, "k_other")
        .replace(
          digest,
          digest.replace(/^./, (first) => (first === "0" ? "1" : "0")),
        );
      const put = ["keys", "import", "-", "--config", running.file];
      assert.equal((await runVerb(put, { stdin: lines })).status, 0);
      const where = ["--admin", running.admin];
      const revoked = await runVerb(["keys", "revoke", "k_other", ...where]);
      assert.equal(revoked.status, 0, revoked.err);
      const changed = await runVerb(["accounts", "set", "umbrella", "--plan", "pro", ...where]);
      assert.equal(changed.status, 0, changed.err);
      const after = await runVerb(["keys", "export", ...where]);
      assert.match(after.out, /"umbrella".*"pro"/);
      assert.doesNotMatch(after.out, /import/);
    } finally {
      await running.close();
    }
  });

  it("tells damaged records through --admin, with their places", async () => {
    const running = await openRunning({});
    try {
      const place = join(dirname(running.file), "data", "keys.json");
      const text = await readFile(place, "utf8");
      await writeFile(place, text.replace(`"keys":[`, `"keys":[{"id":7},`));
      const list = () => runVerb(["keys", "list", "--json", "--admin", running.admin]);
      await eventually(async () => assert.equal((await list()).status, 1));
      const said = await list();
      assert.match(said.err, /keys\.json:\d+:\d+: Cannot use keys\[0\]/);
      assert.deepEqual(jsonOf<object[]>(said).length, 1);
    } finally {
      await running.close();
    }
  });

  it("takes plans and environments from the gateway, not from the broken file", async () => {
    const running = await openRunning({});
    try {
      const text = await readFile(running.file, "utf8");
      const renamed = text
        .replace(/^(\s+)free:/m, "$1newest:")
        .replace("basePath: /v1", "basePath: v1");
      assert.notEqual(renamed, text);
      await writeFile(running.file, renamed);
      const create = (plan: string, env = "production") => {
        return runVerb(["keys", "create", "--env", env, "--plan", plan, "--config", running.file]);
      };
      assert.equal((await create("free")).status, 0);
      const unknown = await create("newest");
      assert.equal(unknown.status, 64);
      assert.match(unknown.err, /newest/);
      assert.equal((await create("free", "nowhere")).status, 64);
    } finally {
      await running.close();
    }
  });

  it("goes on where the file says that it is YAML 1.1, and tells the mistakes that YAML 1.2 has", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder, {});
    const lines = `${await readFile(file, "utf8")}history: off\nplams: {}\n`;
    for (const mark of ["", "\uFEFF"]) {
      await writeFile(file, `${mark}%YAML 1.1\n---\n${lines}`);
      const said = await runVerb(["keys", "list", "--json", "--config", file]);
      const [first = "", second = "", ...more] = said.err.split("\n");
      assert.match(first, /^\S+\.yaml:1:1: .* YAML 1\.1, in which 060 is 48; remove the line$/);
      assert.match(second, /^\S+\.yaml:\d+:1: Cannot use plams: /);
      assert.deepEqual([said.status, said.out, more], [0, "[]\n", [""]]);
    }
  });

  it("ends with 78 for a mistake in what leads to the gateway, and for what is no YAML", async () => {
    const running = await openRunning({});
    try {
      const text = await readFile(running.file, "utf8");
      for (const wrong of [
        text.replace(/^admin:.*$/m, "admin: { listen: nowhere }"),
        `${text}storePrefix: "a b"\n`,
        text.replace(/^keys: .*$/m, "keys: redis"),
        "environments: [",
      ]) {
        assert.notEqual(wrong, text);
        await writeFile(running.file, wrong);
        const said = await runVerb(["bans", "list", "--config", running.file]);
        assert.equal(said.status, 78, wrong);
        assert.match(said.err, /tollgate\.yaml:\d+:\d+: /);
      }
    } finally {
      await running.close();
    }
  });
});

describe("a verb with --admin URL", () => {
  for (const keys of ["file", "redis"] as const) {
    it(`does its work whatever the file holds, with keys in ${keys}`, async () => {
      const redis = keys === "redis" ? await startRedis() : undefined;
      const settings = redis === undefined ? {} : { store: redis.url, keys: "redis" };
      const running = await openRunning({ ...settings, token: TOKEN });
      try {
        await writeFile(running.file, "environments: [\n");
        const env = { TOLLGATE_ADMIN_TOKEN: TOKEN };
        const where = ["--admin", running.admin, "--config", running.file];
        await emergency(running, where, { env });
        const status = await runVerb(["status", ...where], { env });
        assert.match(status.out, /^Tollgate is ready/);
        const refused = await runVerb(["bans", "list", ...where]);
        assert.equal(refused.status, 1);
        assert.match(refused.err, /TOLLGATE_ADMIN_TOKEN/);
      } finally {
        await running.close();
        await redis?.close();
      }
    });
  }

  it("loses no change of another writer: changed records are read again, and the edit made again", async () => {
    const running = await openRunning({});
    try {
      const where = ["--admin", running.admin];
      const names = Array.from({ length: 8 }, (_, i) => `name-${i}`);
      const done = await Promise.all(
        names.map((value) => {
          const args = ["accounts", "set", "acme", "--meta", `m${value.slice(-1)}=${value}`];
          return runVerb([...args, ...where]);
        }),
      );
      assert.deepEqual(
        done.map(({ status, err }) => [status, err]),
        names.map(() => [0, ""]),
      );
      const shown = await runVerb(["accounts", "show", "acme", "--json", ...where]);
      const { meta } = jsonOf<{ meta: Record<string, string> }>(shown);
      assert.deepEqual(Object.values(meta).toSorted(), names);
    } finally {
      await running.close();
    }
  });
});
