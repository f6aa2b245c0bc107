import assert from "node:assert/strict";
import { readFile, rename, writeFile } from "node:fs/promises";
import { Agent, get as getSecure } from "node:https";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, it, onTestFinished } from "vitest";
import type { Config } from "../../../src/config/config.ts";
import { Handover } from "../../../src/server/workers/handover.ts";
import { runVerb } from "../../cli/kit.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { openAuthority } from "../../support/wire/certificates.ts";
import { type Change, type Crew, get, issueKeys, openCrew, openFolder, pidsOf } from "./kit.ts";
import { openPoolOn } from "./pool.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

/** Kills all workers, and waits for those in their place. */
async function replaceAll({ pids }: Pick<Crew, "pids">): Promise<void> {
  const before = pids();
  assert.equal(before.length, 2);
  for (const pid of before) process.kill(pid, "SIGKILL");
  await eventually(() => {
    assert.ok(pids().length === 2 && !pids().some((pid) => before.includes(pid)));
  });
}

async function open(change: Change = {}, answer?: Parameters<typeof openCrew>[2]) {
  const listen = `127.0.0.1:${await freePort()}`;
  return openCrew(redis, { listen, ...change }, answer);
}

async function issueInFile(file: string): Promise<string> {
  const args = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
  const { out, err } = await runVerb([...args, "--config", file]);
  assert.equal(err, "");
  return (JSON.parse(out) as { key: string }).key;
}

describe("workers in the place of others serve what is in force, whatever the files hold by then", () => {
  it.each([
    ["gone", /^the key records cannot be read/, (file: string) => rename(file, `${file}.away`)],
    ["cut short", /^the key records cannot be read/, cutShort],
    ["damaged in one record", /^1 key record is damaged: /, damageFirst],
  ])("a keys file that is %s refuses no customer, and /readyz says so", async (_, why, spoil) => {
    await using crew = await open({ keys: "./keys.json" });
    const key = await issueInFile(crew.file);
    const ask = async () => (await get(`${crew.url}/v1/animals`, key)).status;
    await eventually(async () => assert.equal(await ask(), 200));
    await crew.gateway.line(({ kind }) => kind === "key_issued");
    await spoil(join(dirname(crew.file), "keys.json"));
    await replaceAll(crew);
    assert.equal(await ask(), 200);
    await eventually(async () => {
      const { status, checks } = await crew.ready();
      assert.deepEqual([status, checks.keys?.ok], [503, false]);
      assert.match(checks.keys?.why ?? "", why);
    });
    assert.equal(await ask(), 200);
  });

  it("records in a Redis that is away are those that were in force", async () => {
    const own = await startRedis();
    onTestFinished(() => own.close());
    const [key = ""] = await issueKeys(own, 1);
    const listen = `127.0.0.1:${await freePort()}`;
    await using crew = await openCrew(own, { listen });
    const stateFile = join(dirname(crew.file), "state.json");
    await own.kill();
    await rename(stateFile, `${stateFile}.away`);
    await replaceAll(crew);
    assert.equal((await get(`${crew.url}/v1/animals`, key)).status, 200);
  });

  it("a certificate that is no longer one ends no gateway, and one that follows is taken", async () => {
    using authority = openAuthority();
    await using backend = await startTestUpstream();
    await using folder = await openFolder(redis, backend.origin);
    const listen = `127.0.0.1:${await freePort()}`;
    await folder.write({ listen });
    const [cert, key] = ["cert.pem", "key.pem"].map((one) => join(dirname(folder.file), one));
    const put = async (pair: { cert: string; key: string }) => {
      await Promise.all([writeFile(cert as string, pair.cert), writeFile(key as string, pair.key)]);
    };
    await put(authority.issue(["IP:127.0.0.1"]));
    const text = await readFile(folder.file, "utf8");
    const tls = `tls: { cert: cert.pem, key: key.pem }, basePath`;
    await writeFile(folder.file, text.replace("basePath", tls));
    await using gateway = startTollgate(["start", "--config", folder.file]);
    await gateway.line(({ msg }) => msg === "serving");
    const serial = () => serialOf(`https://${listen}/v1/animals`, authority.ca);
    const before = await serial();
    await writeFile(cert as string, "no certificate");
    await gateway.line(({ msg }) => msg === "certificate_refused");
    await replaceAll({ pids: () => pidsOf(gateway) });
    assert.equal(await serial(), before);
    await put(authority.issue(["IP:127.0.0.1"]));
    await eventually(async () => assert.notEqual(await serial(), before));
  });
});

const RECORDS = { keys: [], accounts: [] };

/** The handover of a process that watches workers and can read its records. */
function openHandover(config: Config, store = { ok: true }): Handover {
  const keys = { refresh: async () => {}, ready: true, health: () => ({ ok: true }) };
  const handover = new Handover(config, {
    gateway: "vm-1",
    keys: { ...keys, records: () => RECORDS },
    quotas: { health: () => store },
  });
  onTestFinished(() => handover.close());
  return handover;
}

it("a certificate in force is handed on after a reload, of the files that it names, whatever they hold by then", async () => {
  using authority = openAuthority();
  await using folder = await openFolder(redis, "http://127.0.0.1:9");
  const served = async (name: string) => {
    const [cert, key] = ["cert", "key"].map((one) => join(dirname(folder.file), `${name}-${one}`));
    const files = { cert: cert as string, key: key as string };
    const pair = authority.issue(["IP:127.0.0.1"]);
    await Promise.all([writeFile(files.cert, pair.cert), writeFile(files.key, pair.key)]);
    const environments: unknown = [{ name: "production", tls: files }];
    return { config: { environments } as Config, files, pair };
  };
  const [one, other] = [await served("one"), await served("other")];
  const handover = openHandover(one.config);
  const given = async ({ config }: typeof one) => {
    return (await handover.of(config)).config.environments[0]?.tls?.inForce?.cert;
  };
  await writeFile(one.files.cert, "no certificate");
  handover.adopt(one.config);
  assert.equal(await given(one), one.pair.cert);
  handover.adopt(other.config);
  await writeFile(other.files.cert, "no certificate");
  assert.equal(await given(other), other.pair.cert);
});

it("records are handed to a worker that starts while the store is away, though they were just read", async () => {
  const store = { ok: true };
  const config = { environments: [] as Config["environments"] } as Config;
  const handover = openHandover(config, store);
  const given = async () => (await handover.of(config)).records;
  assert.equal(await given(), undefined, "it reads them by itself");
  store.ok = false;
  assert.equal(await given(), RECORDS);
});

async function cutShort(file: string): Promise<void> {
  await writeFile(file, (await readFile(file)).subarray(0, 99));
}

async function damageFirst(file: string): Promise<void> {
  const text = await readFile(file, "utf8");
  assert.match(text, /"plan":"free"/);
  await writeFile(file, text.replace(/"plan":"free"/, '"plan":7'));
}

/** The serial number of the certificate that a new connection gets. */
function serialOf(url: string, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const agent = new Agent({ maxCachedSessions: 0 });
    getSecure(url, { ca, agent }, (response) => {
      const { socket } = response;
      response.resume();
      if ("getPeerCertificate" in socket) {
        resolve((socket.getPeerCertificate as () => { serialNumber: string })().serialNumber);
      }
    }).once("error", reject);
  });
}

it("an upstream that is down is not told as up by workers that have not asked it, and is once it answers", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  await using crew = await open({}, (_, response) => void response.socket?.destroy());
  const ask = () => get(`${crew.url}/v1/animals`, key);
  const kinds = () =>
    crew.gateway.lines().flatMap(({ kind }) => (/^upstream_/.test(String(kind)) ? [kind] : []));
  await eventually(async () => {
    await ask();
    assert.deepEqual(kinds(), ["upstream_down"]);
  });
  await crew.backend.close();
  await replaceAll(crew);
  for (let i = 0; i < 20; i += 1) {
    const { checks } = await crew.ready();
    assert.deepEqual([kinds(), checks.upstreams?.ok], [["upstream_down"], false]);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await using _back = await startTestUpstream(undefined, { port: crew.backend.port });
  await eventually(() => assert.deepEqual(kinds(), ["upstream_down", "upstream_up"]));
});

it("an upstream that is down is so for each worker in the place of those that were killed, whichever of them tells first", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  const starts: Promise<void>[] = [];
  const known: boolean[][] = [];
  let heard = () => {};
  await using house = await openPoolOn(redis, {
    count: 2,
    beforeStart: async () => starts.shift(),
    onStatus: ({ gauges }) => {
      known.push(gauges.upstreams.map(({ up }) => up));
      heard();
    },
  });
  const { pool, pids } = house;
  await eventually(async () => {
    await get(`${pool.urls.production}/v1/animals`, key);
    assert.deepEqual(
      pool.gauges.upstreams.map(({ up }) => up),
      [false],
    );
  });
  // One of the new ones starts when the other has told its status, and does not serve yet.
  const told = Promise.withResolvers<void>();
  starts.push(Promise.resolve(), told.promise);
  for (const pid of pids.slice()) process.kill(pid, "SIGKILL");
  await eventually(() => assert.equal(pool.serving, 0), { everyMs: 1 });
  heard = told.resolve;
  await eventually(() => assert.equal(pids.length, 4));
  known.length = 0;
  // Each tells it twice a second.
  await eventually(() => assert.ok(known.length >= 4));
  for (const ups of known) assert.deepEqual(ups, [false]);
});

it("events of a worker name the gateway as the list of gateways does", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  await using crew = await open({ limit: 1 });
  await get(`${crew.url}/v1/animals`, key);
  const { gateway, worker } = await crew.gateway.line(({ kind }) => kind === "quota");
  const list = await fetch(`${crew.adminUrl}/api/gateways`);
  assert.match(await list.text(), new RegExp(`"${gateway}"`));
  assert.ok(Number(worker) > 0);
});
