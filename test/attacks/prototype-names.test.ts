import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, test } from "vitest";
import { loadConfig } from "../../src/config/load/load.ts";
import { KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { fieldOf, lastSeen, lawHolds, openAttacked } from "./attacked.ts";

const NAMES = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "valueOf",
  "__defineGetter__",
];

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

function unpolluted(): void {
  const plain: Record<string, unknown> = {};
  for (const name of ["polluted", "a", "code", "status", "account"])
    assert.equal(plain[name], undefined);
}

test("as names of fields they are ordinary ones: forwarded, or dropped for their underscores", async () => {
  for (const name of NAMES) {
    const fields = [
      [name, '{"polluted":1}'],
      [name, "again"],
    ] as const;
    assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 200);
    const expected = name.includes("_") ? [] : ['{"polluted":1}', "again"];
    assert.deepEqual(fieldOf(lastSeen(house), name.toLowerCase()), expected);
    const nominated = [["Connection", name]] as const;
    assert.equal((await sendRequest(house.port, { key: KEY, fields: nominated })).status, 200);
    assert.equal(
      (await sendRequest(house.port, { key: KEY, fields: [["Expect", name]] })).status,
      417,
    );
    assert.equal(
      (await sendRequest(house.port, { key: KEY, fields: [["Upgrade", name]] })).status,
      200,
    );
  }
  unpolluted();
});

test("as methods, hosts, paths and keys they are unknown ones", async () => {
  for (const name of NAMES) {
    assert.equal((await sendRequest(house.port, { key: KEY, method: name })).status, 501);
    assert.equal((await sendRequest(house.port, { key: KEY, path: `/${name}` })).status, 404);
    assert.equal((await sendRequest(house.port, { key: KEY, path: `/v1/${name}` })).status, 404);
    assert.equal((await sendRequest(house.port, { key: name })).status, 401);
    assert.equal((await sendRequest(house.port, { key: `pets_live_${name}` })).status, 401);
  }
});

test("in the admin API they are refused as members, plans and environments, and unknown as ids", async () => {
  for (const name of NAMES) {
    const wishes = [
      `{"environment":"production","plan":"free","${name}":{"polluted":1}}`,
      `{"environment":"production","plan":"${name}"}`,
      `{"environment":"${name}","plan":"free"}`,
      `{"environment":"production","plan":"free","limits":{"${name}":5}}`,
    ];
    for (const body of wishes) {
      const response = await house.admin("/api/keys", { method: "POST", body });
      assert.ok(response.status >= 400 && response.status < 500, `${body}: ${response.status}`);
    }
    assert.equal((await house.admin(`/api/usage/${name}`)).status, 404);
    assert.equal((await house.admin(`/api/bans/${name}`, { method: "DELETE" })).status, 404);
  }
  unpolluted();
});

test("as keys of the configuration they are mistakes, at every level", async () => {
  const directory = await mkdtemp(join(tmpdir(), "tollgate-names-"));
  const file = join(directory, "tollgate.yaml");
  const production =
    'production: { listen: "127.0.0.1:0", basePath: /v1, keyTag: live, upstreams: ["http://127.0.0.1:9"]';
  for (const name of ["__proto__", "constructor", "prototype"]) {
    const texts = [
      `environments: { ${production} } }\nplans: { free: { day: 1 } }\n${name}: { polluted: 1 }\n`,
      `environments: { ${production}, ${name}: 1 } }\nplans: { free: { day: 1 } }\n`,
      `environments: { ${production} } }\nplans: { ${name}: { day: 1 }, free: { day: 1 } }\n`,
      `environments: { ${production} } }\nplans: { free: { ${name}: 1, day: 1 } }\n`,
    ];
    for (const text of texts) {
      await writeFile(file, text);
      const loaded = await loadConfig(file, {});
      assert.ok(!loaded.ok, text);
    }
  }
  unpolluted();
  await rm(directory, { recursive: true, force: true });
});

test("the law holds after all of it", () => lawHolds(house));
