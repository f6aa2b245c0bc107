import assert from "node:assert/strict";
import { appendFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

/** The gateway's own words come without a status; they count one mistake as one, with its place. */
async function tellsOwnWords(file: string, admin: number): Promise<void> {
  const lifted = await runVerb(["bans", "lift", "nobody", "--config", file]);
  assert.deepEqual(
    [lifted.status, lifted.err],
    [1, 'Cannot find "nobody": no key or account has this ID\n'],
  );
  await appendFile(file, "bogus: 1\n");
  const answer = await fetch(`http://127.0.0.1:${admin}/api/reload`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
  });
  assert.match(await answer.text(), /the new one has 1 mistake"/);
}

const RESTART = "restart the gateway to change it";

/** A store that the file names by a secret file, and that needs a restart, is not said to be in force. */
async function refusesSecret(secret: string, status: () => Promise<string>): Promise<void> {
  await writeFile(secret, "redis://127.0.0.1:1");
  await eventually(async () => assert.match(await status(), /not reloaded: it needs a restart/));
  const why = `Cannot change store from memory to redis://127.0.0.1:1 by a reload: ${RESTART}`;
  const told = `  the file as it is now, but not all that it names\n  refused    ${why}\n`;
  assert.ok((await status()).endsWith(told), await status());
  await writeFile(secret, "memory");
  await eventually(async () => assert.match(await status(), /config {5}ok\n/));
  assert.match(await status(), / {2}the file as it is now\n$/);
}

const ONE_MISTAKE = /^\S*tollgate\.yaml:\d+:1: Cannot use bogus: .*\n$/;

describe("status and reload", () => {
  it("ask the running gateway, and end with 1 where none runs or what it reads is wrong", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const secret = join(folder.path, "store");
    await writeFile(secret, "memory");
    const file = await writeConfig(folder, { admin, store: `\${file:./store}` });
    const ask = (...args: string[]) => runVerb([...args, "--config", file]);
    const none = await ask("reload");
    assert.equal(none.status, 1);
    assert.match(
      none.err,
      /nothing listens there\. Is it running\?\nSaving the file reloads it too/,
    );
    assert.equal((await ask("status")).status, 1);

    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving");
    const status = await ask("status", "--json");
    assert.equal(status.status, 0);
    const {
      status: told,
      checks,
      config,
    } = jsonOf<{ status: string; checks: object; config: string }>(status);
    assert.deepEqual([told, Object.keys(checks).slice(0, 2)], ["ready", ["config", "store"]]);
    assert.match(config, /^[0-9a-f]{64}$/);
    assert.match((await ask("status")).out, /^Tollgate is ready\n {2}config {5}ok\n/);

    assert.match((await ask("status")).out, / {2}in force {3}\w{8} {2}the file as it is now\n$/);
    await refusesSecret(secret, async () => (await ask("status")).out);
    const unread = join(folder.path, "unread.yaml");
    await writeFile(unread, "plans: {");
    const at = ["--admin", `http://127.0.0.1:${admin}`, "--config", unread];
    // The file is not that of the gateway, so nothing is said of it.
    assert.match((await runVerb(["status", ...at])).out, / {2}in force {3}\w{8} *\n$/);

    const reloaded = await ask("reload", "--json");
    assert.deepEqual([reloaded.status, jsonOf(reloaded)], [0, { hash: config }]);
    assert.match((await runVerb(["reload", ...at])).out, /: \w{8} is in force\n$/);
    await tellsOwnWords(file, admin);
    await gateway.stop();
    const { code, stdout } = await gateway.exited;
    assert.equal(code, 0);
    const last = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
    assert.deepEqual([last.level, last.msg, typeof last.afterMs], ["info", "stopped", "number"]);
  });

  it("tell a gateway that is not ready by 1, alone and among all", async () => {
    const redis = await startRedis();
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const file = await writeConfig(folder, { admin, store: redis.url });
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving");
    const ask = (...args: string[]) => runVerb(["status", ...args, "--config", file]);
    await eventually(async () => assert.equal((await ask("--all")).status, 0));
    const client = await redis.client();
    await eventually(async () => {
      await client.del("tg:{0}:status");
      const { status, out } = await ask("--all", "--json");
      assert.deepEqual([status, out], [1, "[]\n"], "a list of none is not well");
    });
    await redis.close();
    await eventually(async () => {
      const { status, out } = await ask();
      assert.match(out, /^Tollgate is not ready\n(?:.*\n)* {2}store +FAILS/);
      assert.equal(status, 1);
    });
    const all = await ask("--all");
    assert.equal(all.status, 1, all.out);
  });

  it("reload says each mistake of the file once, whether the gateway finds it or none runs", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const file = await writeConfig(folder, { admin });
    const gateway = startTollgate(["start", "--config", file]);
    try {
      await gateway.line(({ msg }) => msg === "serving");
      await appendFile(file, "bogus: 1\n");
      const refused = await runVerb(["reload", "--config", file]);
      const kept = "The old configuration stays in force: the new one has 1 mistake\n";
      assert.equal(refused.status, 1);
      assert.match(refused.err.replace(kept, ""), ONE_MISTAKE);
    } finally {
      await gateway.stop();
    }
    const none = await runVerb(["reload", "--config", file]);
    assert.equal(none.status, 1);
    const [mistake, ...rest] = none.err.split("\n");
    assert.match(`${mistake}\n`, ONE_MISTAKE);
    assert.match(
      rest.join("\n"),
      /^Cannot ask the gateway .*\nSaving the file reloads it too.*\n$/,
    );
  });

  it("reload says that admin is off, and what else reloads", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder, { admin: "off" });
    const { status, err } = await runVerb(["reload", "--config", file]);
    assert.equal(status, 1);
    assert.match(err, /admin is off, set admin\.listen\n.*SIGHUP/);
  });
});

it("status names all that the last reload was refused for, to programs too, until a reload is done", async () => {
  await using house = await startTestGateway();
  const ask = (...args: string[]) => runVerb(["status", ...args, "--admin", house.adminUrl]);
  const reload = async (status: number) => {
    const { status: is } = await house.admin("/api/reload", { method: "POST", body: "{}" });
    assert.equal(is, status);
  };
  const told = async () => {
    const { notReloaded } = jsonOf<{ notReloaded: string[] }>(await ask("--json"));
    return { notReloaded, refused: (await ask()).out.match(/(?<=^ {2}refused {4}).*/gm) ?? [] };
  };
  assert.deepEqual(await told(), { notReloaded: [], refused: [] });
  await house.rewrite({ storePrefix: "other", workers: 1, bans: "off", stateFile: "./other.json" });
  await reload(409);
  const { notReloaded, refused } = await told();
  assert.equal(
    notReloaded[0],
    `Cannot change storePrefix from tg to other by a reload: ${RESTART}`,
  );
  assert.match(
    notReloaded[1] ?? "",
    /^Cannot change stateFile from \S+ to \S+other\.json by a reload/,
  );
  assert.deepEqual([notReloaded.length, refused], [2, notReloaded]);
  await house.rewrite({ plans: { free: { minute: -1 } } });
  await reload(422);
  assert.match(
    (await told()).notReloaded.join(),
    /^\S*tollgate\.yaml:\d+:\d+: Cannot read plans\.free\.minute/,
  );
  await house.rewrite({});
  await reload(200);
  assert.deepEqual(await told(), { notReloaded: [], refused: [] });
});

it("an ID is sent to the gateway as it is, whatever characters it has", async () => {
  await using house = await startTestGateway({ config: { bans: "off" } });
  const { account } = await house.issue();
  for (const more of ["?env=production", "#1", "/1", "%31"]) {
    const id = `${account}${more}`;
    for (const verb of [["accounts", "reset"], ["usage"], ["bans", "lift"]]) {
      const said = await runVerb([...verb, id, "--admin", house.adminUrl]);
      const message = `Cannot find ${JSON.stringify(id)}: no key or account has this ID\n`;
      assert.deepEqual([said.status, said.err], [1, message], verb.join(" "));
    }
  }
});

it("a gateway at the usual port of HTTP is reached by an address without a port", async () => {
  // One of the sixteen million addresses of this machine, at which nothing else listens.
  const host = `127.${[1, 2, 3].map(() => 1 + Math.floor(Math.random() * 254)).join(".")}`;
  const token = "a-token-of-the-admin-listener-0123456789";
  const admin = { listen: `${host}:80`, token };
  const house = await startTestGateway({ config: { admin } }).catch((error: Error) => error);
  const env = { TOLLGATE_ADMIN_TOKEN: token };
  const said = await runVerb(["bans", "list", "--json", "--admin", `http://${host}`], { env });
  // Others than root may not listen there, on some systems.
  if (house instanceof Error)
    assert.deepEqual([said.status, /EACCES/.test(house.message)], [1, true]);
  else {
    assert.deepEqual([said.status, said.err, said.out], [0, "", "[]\n"]);
    await house[Symbol.asyncDispose]();
  }
});
