import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { startTollgate } from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";
import { openAdmin, send } from "./admin-server.ts";

const CREATE = ["keys", "create", "--env", "production", "--plan", "free", "--json"];

describe("a command whose key records are not those of the running gateway", () => {
  it("changes nothing, names both places, and ends with 1: TOLLGATE_DATA of the service alone", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const file = await writeConfig(folder, { admin });
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replace(/^(?:keys|stateFile): .*\n/gm, ""));
    const data = join(folder.path, "service-data");
    await using gateway = startTollgate(["start", "--config", file], {
      env: { TOLLGATE_DATA: data },
    });
    await gateway.line(({ msg }) => msg === "serving");
    const asked = await runVerb([...CREATE, "--config", file]);
    assert.equal(asked.status, 1);
    assert.equal(asked.out, "");
    const own = join(folder.path, "data/keys.json");
    assert.ok(asked.err.includes(own) && asked.err.includes(join(data, "keys.json")), asked.err);
    assert.ok(!existsSync(own), "nothing was written");
    const origin = `http://127.0.0.1:${admin}`;
    assert.ok(asked.err.includes(`: the gateway at ${origin} has others`), asked.err);
    assert.ok(asked.err.endsWith(`, or ask the gateway by --admin ${origin}\n`), asked.err);

    const env = { TOLLGATE_DATA: data };
    const made = await runVerb([...CREATE, "--config", file], { env });
    assert.equal(made.status, 0, made.err);
    const check = ["check", file, "--keys"];
    const checked = await runVerb(check);
    const others = `${origin} has read others in ${join(data, "keys.json")}: `;
    assert.ok(
      checked.err.startsWith(`${file}:1:1: warning: The key records in ${own} `),
      checked.err,
    );
    assert.ok(checked.err.includes(others), checked.err);
    assert.equal(checked.status, 0, "a warning");
    assert.equal((await runVerb(check, { env })).err, "");
    // A file that was there before is as strange as none.
    const before = await runVerb([...CREATE, "--config", file], {
      env: { TOLLGATE_DATA: join(folder.path, "third") },
    });
    assert.equal(before.status, 1);
    const { id } = jsonOf<{ id: string }>(made);
    for (const verb of ["list", `revoke ${id}`]) {
      const args = ["keys", ...verb.split(" "), "--config", file];
      assert.equal((await runVerb(args)).status, 1, verb);
      assert.equal((await runVerb(args, { env })).status, 0, verb);
    }
  });

  it("works where they are the same under another name, and where no gateway runs", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const file = await writeConfig(folder, { admin });
    assert.equal((await runVerb([...CREATE, "--config", file])).status, 0, "no gateway runs yet");
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving");
    assert.equal((await runVerb([...CREATE, "--config", file])).status, 0);
  });

  it("changes nothing where the file that the gateway has read is gone, and works once it is back", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const place = join(folder.path, "keys.json");
    const file = await writeConfig(folder, { admin, keys: place });
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving");
    const args = [...CREATE, "--config", file];
    assert.equal((await runVerb(args)).status, 0, "the first key of a new file");
    await rename(place, `${place}.gone`);
    const asked = await runVerb(args);
    assert.deepEqual([asked.status, asked.out], [1, ""]);
    assert.ok(asked.err.includes(`has read in ${place} are gone`), asked.err);
    const checked = await runVerb(["check", file, "--keys"]);
    assert.match(checked.err, / has read there are gone: put them back, or restart the gateway /);
    assert.ok(!existsSync(place), "no other file was made");
    await rename(`${place}.gone`, place);
    assert.equal((await runVerb(args)).status, 0);
  });

  it("goes by the place where the gateway has no id of its records yet, never where it has one", async () => {
    await using folder = await openFolder();
    const place = join(folder.path, "keys.json");
    for (const [told, status, id] of [
      [`${place}x`, 1, "r1"],
      [place, 1, "r1"],
      [`${place}x`, 1, null],
      // The first of these calls that succeeded gave the records of the command an id.
      [place, 0, null],
    ] as const) {
      await using admin = await openAdmin((response) => {
        send(response, 200, { id, place: told });
      });
      const file = await writeConfig(folder, { admin: admin.port, keys: place });
      const { err, ...said } = await runVerb([...CREATE, "--config", file]);
      assert.equal(said.status, status, err);
    }
  });

  it("works where the gateway gave the records their id while it was asked, under another name", async () => {
    await using folder = await openFolder();
    const place = join(folder.path, "keys.json");
    await using admin = await openAdmin(async (response, { asked }) => {
      if (asked !== "GET /api/records") return send(response, 200, {});
      await writeFile(place, '{"version":2,"id":"same","keys":[],"accounts":[]}');
      send(response, 200, { id: "same", place: "/data/keys.json" });
    });
    const file = await writeConfig(folder, { admin: admin.port, keys: place });
    const said = await runVerb([...CREATE, "--config", file]);
    assert.deepEqual([said.status, said.err], [0, ""]);
  });

  it.each([
    ["redis", "storePrefix: other\n", /prefix other: .* prefix tg\. Nothing was changed\./],
    [
      "./keys.json",
      "",
      /(\S+)\/keys\.json: .* others, in (?!\1)\S+\/keys\.json\. Nothing was changed\./,
    ],
  ])(
    "says so in every verb that asks Redis for an account: keys in %s",
    async (keys, more, both) => {
      const redis = await startRedis();
      try {
        await using folder = await openFolder();
        await using shell = await openFolder();
        const [admin = 0] = await freePorts(1);
        const settings = { admin, store: redis.url, keys };
        const file = await writeConfig(folder, settings);
        await using gateway = startTollgate(["start", "--config", file]);
        await gateway.line(({ msg }) => msg === "serving");
        const made = await runVerb([...CREATE, "--config", file]);
        assert.equal(made.status, 0, made.err);
        const { account } = jsonOf<{ account: string }>(made);
        const ban = ["bans", "add", account, "--for", "1h", "--config", file];
        assert.equal((await runVerb(ban)).status, 0);
        const other = await writeConfig(shell, { ...settings, more });
        for (const verb of [
          ...["keys list", "usage", `usage ${account}`, "usage --days 2", "bans list"],
          ...[`bans add ${account} --for 2h`, `bans lift ${account}`, `accounts reset ${account}`],
          ...[`bans why ${account}`, `audit --log ${file}`],
        ]) {
          const asked = await runVerb([...verb.split(" "), "--config", other]);
          assert.deepEqual([verb, asked.status, asked.out], [verb, 1, ""]);
          assert.match(asked.err, both, verb);
        }
        const bans = await runVerb(["bans", "list", "--json", "--config", file]);
        const known = jsonOf<readonly { account: string }[]>(bans).map((one) => one.account);
        assert.deepEqual(known, [account], "the ban of the gateway stands");
      } finally {
        await redis.close();
      }
    },
  );

  it("says so in every verb that asks the gateway for an account: store: memory", async () => {
    await using folder = await openFolder();
    await using shell = await openFolder();
    const [admin = 0] = await freePorts(1);
    const file = await writeConfig(folder, { admin });
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving");
    const made = await runVerb([...CREATE, "--config", file]);
    assert.equal(made.status, 0, made.err);
    const { account } = jsonOf<{ account: string }>(made);
    const ban = ["bans", "add", account, "--for", "1h", "--json", "--config"];
    assert.equal((await runVerb([...ban, file])).status, 0);
    const other = await writeConfig(shell, { admin });
    for (const verb of [
      ...["usage", `usage ${account}`, "usage --days 2", "bans list", `bans why ${account}`],
      ...[`bans add ${account} --for 2h`, `bans lift ${account}`, `accounts reset ${account}`],
    ]) {
      const asked = await runVerb([...verb.split(" "), "--config", other]);
      assert.deepEqual([verb, asked.status, asked.out], [verb, 1, ""]);
      assert.match(asked.err, / has others, in \S+\. Nothing was changed\./, verb);
    }
    const bans = await runVerb(["bans", "list", "--json", "--config", file]);
    const known = jsonOf<readonly { account: string }[]>(bans).map((one) => one.account);
    assert.deepEqual(known, [account], "the ban of the gateway stands");
    const named = ["bans", "lift", account, "--admin", `http://127.0.0.1:${admin}`];
    assert.equal((await runVerb([...named, "--config", other])).status, 0, "named on purpose");
  });

  it("says so of another store, with the same key file and no password, and never of the same by another name", async () => {
    const password = "hunter2-hunter2";
    const redis = await startRedis({ args: ["--requirepass", password] });
    try {
      await using folder = await openFolder();
      const [admin = 0] = await freePorts(1);
      const storeOf = (host: string, rest = "") => {
        return `redis://:${password}@${host}:${redis.port}${rest}`;
      };
      const file = await writeConfig(folder, { admin, store: `$${"{STORE}"}` });
      const run = (verb: string, store: string) => {
        return runVerb([...verb.split(" "), "--config", file], { env: { STORE: store } });
      };
      await using gateway = startTollgate(["start", "--config", file], {
        env: { STORE: storeOf("127.0.0.1") },
      });
      await gateway.line(({ msg }) => msg === "serving");
      const made = await run(CREATE.join(" "), storeOf("localhost", "/0"));
      assert.equal(made.status, 0, made.err);
      const { account } = jsonOf<{ account: string }>(made);
      const reader = await redis.client({ password });
      await eventually(async () => {
        assert.equal(await reader.hlen("tg:{0}:status"), 1, "the gateway is in the list");
      });
      const told =
        `Cannot use the store redis://:***@127.0.0.1:${redis.port}/1, prefix tg: ` +
        `the gateway at http://127.0.0.1:${admin} has another, redis://:***@127.0.0.1:${redis.port}, prefix tg. Nothing was changed. `;
      for (const verb of [
        ...["usage", `usage ${account}`, "usage --days 2", "bans list", "deprecations"],
        ...[`bans add ${account} --for 1h`, `accounts reset ${account}`, `audit --log ${file}`],
      ]) {
        const other = await run(verb, storeOf("127.0.0.1", "/1"));
        assert.deepEqual([other.status, other.out, other.err.slice(0, told.length)], [1, "", told]);
      }
      for (const verb of [`bans add ${account} --for 1h`, `bans lift ${account}`, "deprecations"]) {
        const same = await run(verb, storeOf("localhost"));
        assert.deepEqual([verb, same.status, same.err], [verb, 0, ""]);
      }
    } finally {
      await redis.close();
    }
  });

  it("is told another store only by a gateway that is listed in its own and stays there", async () => {
    const redis = await startRedis();
    try {
      await using folder = await openFolder();
      const place = { store: "redis://elsewhere\u001b[2J", storePrefix: "tg" };
      const self = [200, [{ name: "vm-1", self: true }]] as const;
      const silent = [404, { code: "not_found", message: "There is nothing here" }] as const;
      for (const [status, config, first, second] of [
        [1, [200, place], self, self],
        [0, [200, place], self, [200, []]],
        [0, [200, place], self, [200, [{ name: "vm-2", self: true }]]],
        [0, [200, place], [200, [{ name: "vm-1", self: false }]], self],
        [0, [200, {}], self, self],
        [0, silent, silent, silent],
      ] as const) {
        const lists = [first, second];
        await using admin = await openAdmin((response, { asked }) => {
          const list = asked === "GET /api/gateways" ? lists.shift() : undefined;
          const [told, body] = list ?? (asked === "GET /api/config" ? config : silent);
          send(response, told, body);
        });
        const file = await writeConfig(folder, { admin: admin.port, store: redis.url });
        const said = await runVerb(["bans", "list", "--config", file]);
        assert.equal(said.status, status, said.err);
        const named = said.err.includes(" has another, redis://elsewhere\\u001b[2J, prefix tg. ");
        assert.equal(named, status === 1, said.err);
      }
    } finally {
      await redis.close();
    }
  });
});
