import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Config } from "../../src/config/config.ts";
import { decideReload, reloadBlockers } from "../../src/config/reload.ts";
import { planMissing, unserved } from "../../src/config/unserved-records.ts";
import { type GivenKey, recordsFrom } from "../support/records.ts";
import { loadLines } from "./folder.ts";

const NOW_MS = Date.UTC(2026, 0, 1);

function environment(name: string, listen = "127.0.0.1:8080", more = ""): string {
  return `  ${name}: { listen: "${listen}", keyTag: ${name}, upstreams: [http://a]${more} }\n`;
}

/** Loads both from one imaginary place, so that paths agree. */
async function change(from: string, to: string): Promise<{ from: Config; to: Config }> {
  const moved = (config: Config): Config => {
    const folder = config.file.replace("/tollgate.yaml", "");
    const { keys } = config;
    return {
      ...config,
      keys: keys.in === "file" ? { ...keys, path: keys.path.replace(folder, "") } : keys,
      stateFile: config.stateFile.replace(folder, ""),
    };
  };
  return { from: moved(await loadLines(from)), to: moved(await loadLines(to)) };
}

async function refusals(from: string, to: string, keys: readonly GivenKey[] = []) {
  return reloadBlockers(await change(from, to), recordsFrom(keys), NOW_MS);
}

function key(id: string, plan: string, more: GivenKey = {}): GivenKey {
  return { id, plan, ...more };
}

describe("a reload is refused, naming what", () => {
  const redis = "store: redis://127.0.0.1:6379\n";
  const rows: readonly (readonly [what: string, from: string, to: string, message: RegExp])[] = [
    ["store", "store: memory", redis, /change store from memory to redis:\/\/127\.0\.0\.1:6379 by/],
    [
      "another Redis",
      redis,
      "store: redis://other",
      /change store from redis:\/\/127\.0\.0\.1:6379 to redis:\/\/other by/,
    ],
    ["storePrefix", "", "storePrefix: other", /change storePrefix from tg to other/],
    ["keys", "", "keys: ./other.json", /change keys from \/data\/keys\.json to \/other\.json/],
    ["keys to redis", redis, `${redis}keys: redis`, /change keys from \/data\/keys\.json to redis/],
    [
      "stateFile",
      "",
      "stateFile: s.json",
      /change stateFile from \/data\/state\.json to \/s\.json/,
    ],
    ["workers", redis, `${redis}workers: auto`, /change workers from 1 to auto/],
    [
      "admin.listen",
      "",
      "admin: { listen: 127.0.0.1:9 }",
      /admin\.listen from 127\.0\.0\.1:9090 to/,
    ],
    ["admin off", "", "admin: off", /admin\.listen from 127\.0\.0\.1:9090 to off/],
    [
      "a listen",
      `environments:\n${environment("a")}`,
      `environments:\n${environment("a", "127.0.0.1:8081")}`,
      /environments\.a\.listen from 127\.0\.0\.1:8080 to 127\.0\.0\.1:8081/,
    ],
    [
      "a new listener",
      `environments:\n${environment("a")}`,
      `environments:\n${environment("a")}${environment("b", "127.0.0.1:8081")}`,
      /add environments\.b by a reload: nothing listens on 127\.0\.0\.1:8081/,
    ],
    [
      "a listener that goes",
      `environments:\n${environment("a")}${environment("b", "127.0.0.1:8081")}`,
      `environments:\n${environment("a")}`,
      /drop environments\.b by a reload: its listener 127\.0\.0\.1:8081/,
    ],
  ];
  for (const [what, from, to, message] of rows) {
    it(what, async () => {
      const reasons = await refusals(from, to);
      assert.equal(reasons.length, 1);
      assert.match(reasons[0] ?? "", message);
      assert.deepEqual(await refusals(from, from), []);
    });
  }

  it("a password of the store, without showing it", async () => {
    const reasons = await refusals("store: redis://u:old1@h", "store: redis://u:new2@h");
    assert.equal(reasons.length, 1);
    assert.match(reasons[0] ?? "", /password of store redis:\/\/u:\*\*\*@h/);
    assert.doesNotMatch(reasons[0] ?? "", /old1|new2/);
  });

  it("all of them at once", async () => {
    const reasons = await refusals("", "storePrefix: x\nstateFile: y\nadmin: off");
    assert.equal(reasons.length, 3);
  });
});

describe("what everybody may read of a refused reload", () => {
  async function summary(from: string, to: string): Promise<string | undefined> {
    const inForce = await change(from, to);
    const records = recordsFrom([key("k1", "pro")]);
    const loaded = { ok: true, config: inForce.to, warnings: [], files: [] } as const;
    const next = decideReload(loaded, { from: inForce.from, records, nowMs: NOW_MS });
    return next.ok ? undefined : next.summary;
  }
  const pro = "plans: { pro: { minute: 2 } }";
  const other = "plans: { other: { minute: 2 } }";

  it("is no restart where accounts have the plan, as a restart would take it from them", async () => {
    assert.equal(
      await summary(pro, other),
      "accounts with working keys have a plan that it takes away",
    );
  });

  it("is a restart where that is needed too", async () => {
    assert.equal(await summary(pro, `${other}\nstorePrefix: x`), "it needs a restart");
    assert.equal(await summary(pro, `${pro}\nstorePrefix: x`), "it needs a restart");
  });
});

describe("accounts in an environment that is not configured", () => {
  const both = `environments:\n${["old", "new"].map((name) => environment(name, "127.0.0.1:8080", `, hosts: [${name}.test]`)).join("")}`;
  const one = `environments:\n${environment("new")}`;

  async function told(lines: string, keys: readonly GivenKey[]) {
    const found = unserved(await loadLines(lines), recordsFrom(keys), NOW_MS);
    return found.map(({ accounts, tell }) => tell(accounts));
  }

  it("are told by one warning, which names those whose keys work there", async () => {
    const ended = key("k3", "pro", { environment: "old", revokedMs: NOW_MS - 1 });
    const old = ["k1", "k2"].map((id) => key(id, "free", { environment: "old" }));
    const keys = [...old, ended, key("k4", "free", { environment: "new" })];
    assert.deepEqual(await told(one, keys), [
      "There is no environment old, and the accounts k1, k2 have it: requests with their keys are answered 401 key_invalid, unless another gateway with the same records serves it",
    ]);
    assert.deepEqual(await told(both, keys), []);
    assert.deepEqual(await told(one, [ended]), []);
  });
});

describe("a reload after which the keys of before have another shape", () => {
  async function warned(from: string, to: string, keys: readonly GivenKey[]) {
    const inForce = await change(from, to);
    const loaded = { ok: true, config: inForce.to, warnings: [], files: [] } as const;
    const context = { from: inForce.from, records: recordsFrom(keys), nowMs: NOW_MS };
    const next = decideReload(loaded, context);
    assert.ok(next.ok, next.ok ? "" : next.reasons.join());
    return next.warnings.map(({ message }) => message);
  }
  const served = (live: string, test: string, more = "") => {
    const tagged = Object.entries({ production: live, staging: test }).map(([name, tag]) => {
      const hosts = `, hosts: [${name}.test]`;
      return environment(name, "127.0.0.1:8080", hosts).replace(
        `keyTag: ${name}`,
        `keyTag: ${tag}`,
      );
    });
    return `environments:\n${tagged.join("")}${more}`;
  };
  const keys = [
    key("k1", "free"),
    key("k2", "free", { environment: "staging" }),
    key("k3", "free", { revokedMs: NOW_MS - 1 }),
    key("k4", "free", { importId: "i_1" }),
  ];
  const before = served("live", "test");

  it("is taken with a warning for each changed tag, with the accounts whose keys work there", async () => {
    const end = "_ are answered 401 key_invalid";
    const production = (tag: string) =>
      `The keyTag of production is ${tag} and was live, and the accounts k1, k4 have keys there: requests with keys that start with pets_live${end}`;
    assert.deepEqual(await warned(before, served("prod", "test"), keys), [production("prod")]);
    assert.deepEqual(await warned(before, served("test", "live"), keys), [
      production("test"),
      `The keyTag of staging is live and was test, and the account k2 has keys there: requests with keys that start with pets_test${end}`,
    ]);
  });

  it("says only that it may refuse imported keys, where foreignKeys takes other shapes", async () => {
    const foreign = "foreignKeys: [{ prefix: sk_, min: 22 }]";
    const [from, to] = [served("live", "test", foreign), served("prod", "test", foreign)];
    const why = "The keyTag of production is prod and was live, and the account";
    const imported = `${why} k4 has only imported keys, which may start with pets_live_: requests with these are answered 401 key_invalid`;
    assert.deepEqual(await warned(from, to, keys), [
      `${why} k1 has keys there: requests with keys that start with pets_live_ are answered 401 key_invalid`,
      imported,
    ]);
    assert.deepEqual(await warned(from, to, keys.slice(1)), [imported]);
    const both = key("k5", "free", { account: "k1", importId: "i_1" });
    const [issued = "", ...others] = await warned(from, to, [...keys.slice(0, 1), both]);
    assert.deepEqual([/the account k1 has keys there/.test(issued), others], [true, []]);
  });

  it("is taken with one warning for another keyPrefix, and none where foreignKeys takes the old keys", async () => {
    const acme = "keyPrefix: acme";
    assert.deepEqual(await warned(before, served("live", "test", acme), keys), [
      "keyPrefix is acme and was pets, and the accounts k1, k2, k4 have keys there: requests with keys that start with pets_live_, pets_test_ are answered 401 key_invalid",
    ]);
    const taken = (tag: string) => `${acme}\nforeignKeys: [{ prefix: pets_${tag}, min: 36 }]`;
    const part = await warned(before, served("live", "test", taken("live_")), keys);
    assert.match(part.join(), /the account k2 has keys there: .* with pets_test_ are/);
    const all = served("live", "test", taken(""));
    assert.deepEqual(await warned(before, all, keys), []);
    // On the way back the old keys are Tollgate keys again, imported ones too.
    const [back = "", ...others] = await warned(all, before, keys);
    const ended = "keyPrefix is pets and was acme, and the account";
    const issued = "start with acme_live_, acme_test_";
    assert.match(back, new RegExp(`^${ended}s k1, k2 have keys there: .* ${issued} are`));
    assert.match(
      others.join(),
      new RegExp(`^${ended} k4 has only imported keys, which may ${issued}:`),
    );
  });

  it("is taken with a warning for each prefix of foreignKeys that goes, with the accounts of imported keys", async () => {
    const foreign = (min: number) =>
      served("live", "test", `foreignKeys: [{ prefix: sk_live_, min: ${min} }]`);
    const told =
      "foreignKeys takes sk_live_ and 24 characters no more, and the account k4 has imported keys: requests with keys of that shape are answered 401 key_invalid";
    assert.deepEqual(await warned(foreign(24), before, keys), [told]);
    assert.deepEqual(await warned(foreign(24), foreign(25), keys), [
      `${told}, unless it takes them as sk_live_ and 25 characters`,
    ]);
    const shapes = (...all: string[]) =>
      served("live", "test", `foreignKeys: [${all.map((one) => `{ prefix: ${one}, min: 22 }`)}]`);
    const [unless = "", ...others] = await warned(shapes("sk_"), shapes("sk_a", "tok_"), keys);
    assert.match(
      unless,
      /k4 has imported keys: .* key_invalid, unless it takes them as sk_a and 22 characters$/,
    );
    assert.deepEqual(others, []);
    const longer = served("live", "test", "foreignKeys: [{ prefix: sk_, min: 60 }]");
    assert.deepEqual(await warned(foreign(24), longer, keys), [
      `${told}, unless it takes them as sk_ and 60 characters`,
    ]);
    assert.deepEqual(await warned(shapes("sk_a", "tok_"), shapes("sk_", "tok_"), keys), []);
    assert.deepEqual(await warned(foreign(24), foreign(23), keys), []);
    assert.deepEqual(await warned(foreign(24), before, keys.slice(0, 3)), []);
  });

  it("is taken with a warning for each field that keyHeaders loses, with the accounts whose keys work", async () => {
    const fields = (list: string) => served("live", "test", `keyHeaders: [${list}]`);
    const told = (field: string) =>
      `keyHeaders has ${field} no more, and the accounts k1, k2, k4 have keys: requests with keys in that field alone are answered 401 key_missing`;
    const both = fields("authorization, x-api-key");
    assert.deepEqual(await warned(both, before, keys), [told("x-api-key")]);
    assert.deepEqual(await warned(before, fields("x-api-key"), keys), [told("authorization")]);
    assert.deepEqual(await warned(before, both, keys), []);
    assert.deepEqual(await warned(both, fields("x-api-key, authorization"), keys), []);
    assert.deepEqual(await warned(both, before, keys.slice(2, 3)), []);
  });
});

describe("a plan in use", () => {
  const both = "plans: { free: { minute: 1 }, pro: { minute: 2 } }";
  const free = "plans: { free: { minute: 1 } }";

  it("cannot be dropped; its accounts are named", async () => {
    const records = [key("k1", "pro"), key("k2", "free"), key("k3", "pro")];
    assert.deepEqual(await refusals(both, free, records), [
      "Cannot drop the plan pro by a reload: the accounts k1, k3 have it; move them first, with `accounts set --on pro --plan OTHER`",
    ]);
  });

  it("names twenty of its accounts, and how many more have it", async () => {
    const records = Array.from({ length: 21 }, (_, i) => key(`k${i + 10}`, "pro"));
    const names = records.slice(0, 20).map(({ id }) => id);
    const told = async (count: number) =>
      (await refusals(both, free, records.slice(0, count))).join();
    assert.ok((await told(20)).includes(`the accounts ${names.join(", ")} have it;`));
    assert.ok((await told(21)).includes(`the accounts ${names.join(", ")} and 1 more have it;`));
  });

  it("that the configuration in force lacks is not dropped: another gateway may have it", async () => {
    const records = [key("k1", "pro"), key("k2", "free")];
    assert.deepEqual(await refusals(free, free, records), []);
    assert.deepEqual(await refusals(free, both, records), []);
    assert.match((await refusals(free, "plans: { pro: custom }", records)).join(), /plan free by/);
  });

  it("is in use until its last key has expired or is revoked", async () => {
    const ended = [
      key("k1", "pro", { revokedMs: NOW_MS }),
      key("k2", "pro", { expiresMs: NOW_MS }),
    ];
    assert.deepEqual(await refusals(both, free, ended), []);
    const graced = [key("k1", "pro", { expiresMs: NOW_MS + 1 })];
    assert.equal((await refusals(both, free, graced)).length, 1);
  });

  it("is not kept in use by a key that is revoked by a clock ahead of ours", async () => {
    const revoked = [key("k1", "pro", { revokedMs: NOW_MS + 3_600_000 })];
    assert.deepEqual(await refusals(both, free, revoked), []);
  });

  it("may change its limits, and a plan may come", async () => {
    const more = "plans: { free: { day: 9 }, new: custom }";
    assert.deepEqual(await refusals(free, more, [key("k1", "free")]), []);
  });

  it("that is custom may stay so beside an account that has no limits of its own", async () => {
    const custom = "plans: { free: custom }";
    assert.deepEqual(await refusals(custom, custom, [key("k1", "free")]), []);
  });

  it("cannot become custom while a key has no limits of its own", async () => {
    const custom = "plans: { free: custom }";
    const own = key("k2", "free", { limits: [{ window: "minute", limit: 1 }] });
    assert.deepEqual(await refusals(free, custom, [own]), []);
    assert.match(
      (await refusals(free, custom, [own, key("k1", "free")]))[0] ?? "",
      /the account k1 has it/,
    );
  });
});

describe("a change of records that was judged by the plans before a reload", () => {
  const [free, gone] = [key("a1", "free"), key("a2", "gone")];
  const why = async (before: readonly GivenKey[], after: readonly GivenKey[]) => {
    const config = await loadLines("plans: { free: { minute: 1 }, empty: custom }");
    const [records, edited] = [recordsFrom(before), recordsFrom(after)];
    const kept = new Map(before.map((given, i) => [given, records.accounts[i]]));
    const accounts = edited.accounts.map((made, i) => kept.get(after[i] as GivenKey) ?? made);
    return planMissing(config, records, { ...edited, accounts });
  };

  it("is refused where an account would be without limits, wherever it stands", async () => {
    for (const plan of ["gone", "empty"]) {
      const refused = `Cannot put the account a1 on plan ${plan}: a reload has taken its limits away`;
      assert.equal(await why([free, gone], [key("a1", plan), gone]), refused);
      assert.equal(await why([gone, free], [key("a1", plan), gone]), refused);
      assert.equal(await why([gone], [gone, key("a1", plan)]), refused);
    }
  });

  it("is made beside accounts that are without limits already, also to those", async () => {
    assert.equal(await why([free, gone], [{ ...free }, gone]), undefined);
    assert.equal(await why([gone, free], [free, gone]), undefined);
    assert.equal(await why([free, gone], [free, { ...gone }]), undefined);
  });
});

describe("a reload may", () => {
  it("change everything else", async () => {
    const to = `bans: off
keyPrefix: other
log: { level: debug }
limits: { bodyBytes: 2MiB }
trustedProxies: [10.0.0.0/8]
unauthenticated: { second: 1 }
rateLimitFields: ietf
onStoreFailure: deny
expectedGateways: 3
admin: { token: new }`;
    assert.deepEqual(await refusals("", to), []);
  });

  it("add and drop environments on a listener that stays open", async () => {
    const one = `environments:\n${environment("a", "127.0.0.1:8080", ", hosts: [a]")}`;
    const two = `${one}${environment("b", "127.0.0.1:8080", ", hosts: [b]")}`;
    assert.deepEqual(await refusals(one, two), []);
    assert.deepEqual(await refusals(two, one), []);
  });

  it("not add an environment on port 0, which is another port", async () => {
    const one = `environments:\n${environment("a", "127.0.0.1:0")}`;
    const two = `${one}${environment("b", "127.0.0.1:0")}`;
    assert.equal((await refusals(one, two)).length, 1);
    assert.deepEqual(await refusals(one, one), []);
  });
});
