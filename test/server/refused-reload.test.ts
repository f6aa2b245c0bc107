import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { it } from "vitest";
import { each } from "../support/each.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { ACCOUNT, KEY, spawnGateway } from "../support/gateway/served.ts";
import { needing } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";
import { openClient, sendRequest } from "../support/wire/client.ts";

it("/readyz does not ask for a restart where a plan in use is dropped, and names no account", async () => {
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({ upstreams: [backend.origin] });
  const config = async () => {
    const response = await fetch(`${served.adminUrl}/readyz`);
    const { status, checks } = (await response.json()) as Record<string, Record<string, unknown>>;
    return { status, config: checks?.config };
  };

  await served.rewrite({ plans: { other: { minute: 5 } } });
  const why = "not reloaded: accounts with working keys have a plan that it takes away";
  const refused = { status: "ready", config: { ok: true, why: `${why}; the log says why` } };
  await eventually(async () => assert.deepEqual(await config(), refused));

  await served.rewrite({});
  const taken = { status: "ready", config: { ok: true } };
  await eventually(async () => assert.deepEqual(await config(), taken));
});

it("a configuration that cannot be read is read again when the rights of its file change", async () => {
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({ upstreams: [backend.origin] });
  const refusals = () => served.said.filter(({ kind }) => kind === "config_refused").length;
  await served.rewrite({ plans: 7 });
  await eventually(() => assert.equal(refusals(), 1));
  await chmod(served.file, 0o640);
  await eventually(() => assert.equal(refusals(), 2));
});

/** Sets how many files a process may open, and returns how many it could before. */
function limitFiles(pid: number | undefined, files: string): string {
  const options = ["--pid", String(pid), "--nofile", "--noheadings", "--output", "SOFT"];
  const before = execFileSync("prlimit", options, { encoding: "utf8" }).trim();
  execFileSync("prlimit", ["--pid", String(pid), `--nofile=${files}:`]);
  return before;
}

it(
  "a configuration that is saved while no file can be opened is taken when one can, and told to who asked alone, as no mistake",
  needing("prlimit"),
  async () => {
    await using backend = await startTestUpstream();
    await using served = await spawnGateway({ upstreams: [backend.origin] });
    const { pid } = served.running.child;
    const refusals = () => served.said.filter(({ kind }) => kind === "config_refused");
    // A connection is open before the limit, under which none can be accepted, and idle ones end.
    const openAdmin = () => openClient(Number(new URL(served.adminUrl).port));
    const reload = (admin: Awaited<ReturnType<typeof openAdmin>>) =>
      admin.ask({ method: "POST", path: "/api/reload", host: "localhost", body: "{}" });

    await using first = await openAdmin();
    const files = limitFiles(pid, "3");
    await served.rewrite({ limits: { drain: "2s" } });
    // A save may be noticed twice.
    await eventually(() => assert.ok(refusals().length >= 1));
    const { status, body } = await reload(first);
    assert.equal(status, 409);
    const why =
      "the configuration cannot be read yet: too many files are open; raise their limit (ulimit -n), or lower limits.connections; it is tried again each second";
    assert.ok(body.toString().includes(why), body.toString());
    await eventually(() => assert.ok(refusals().length >= 2));
    for (const refusal of each(refusals())) assert.equal(refusal.why, why);
    assert.ok(!served.said.some(({ kind }) => kind === "config_reloaded"));

    // A reload that somebody asked for is told in the log, and none of the three further tries.
    const told = refusals().length;
    await sleep(3_500);
    limitFiles(pid, files);
    await served.running.line(({ kind }) => kind === "config_reloaded");
    assert.ok(refusals().length - told <= 1, `${refusals().length} after ${told}`);
    const shown = await fetch(`${served.adminUrl}/api/config`);
    assert.match(JSON.stringify(await shown.json()), /"drain":"2s"/);

    await using second = await openAdmin();
    limitFiles(pid, "3");
    assert.equal((await reload(second)).status, 409);
    limitFiles(pid, files);
    const asked = served.said.length;
    assert.equal((await reload(second)).status, 200);
    const isTaken = ({ kind }: { kind?: unknown }) => kind === "config_reloaded";
    await eventually(() => assert.ok(served.said.slice(asked).some(isTaken)));
    const taken = served.said.filter(isTaken).length;
    await sleep(1_500);
    assert.equal(served.said.filter(isTaken).length, taken, "a reload in between is the last try");
  },
);

it("a start whose plans leave accounts with working keys without limits says which, and another start says nothing", async () => {
  await using backend = await startTestUpstream();
  const warned = async (plans: Readonly<Record<string, unknown>>) => {
    await using served = await spawnGateway({ upstreams: [backend.origin], config: { plans } });
    const { status } = await sendRequest(served.port, { key: KEY });
    await served.running.stop();
    const lines = served.said.filter(({ msg }) => msg === "config_warning");
    const of = lines.map(({ level, file }) => [level, file === served.file]);
    return { status, of, whys: lines.map(({ why }) => String(why)) };
  };
  assert.deepEqual(await warned({ vectors: { minute: 5 } }), { status: 200, of: [], whys: [] });
  const dropped = await warned({ other: { minute: 5 } });
  assert.deepEqual([dropped.status, dropped.of], [503, [["warn", true]]]);
  const told = `there is no plan vectors, and the account ${ACCOUNT} has it; add it, or move them with`;
  assert.ok(dropped.whys[0]?.includes(told), String(dropped.whys[0]));
  const custom = await warned({ vectors: "custom" });
  assert.deepEqual([custom.status, custom.whys.length], [503, 1]);
  assert.match(String(custom.whys[0]), /the plan vectors is custom, and .*--limit WINDOW=N/);
});

it("an environment in which keys work and that the file lacks is told by a start, and not again by a reload", async () => {
  await using backend = await startTestUpstream();
  const staging = { listen: "127.0.0.1:0", keyTag: "test", upstreams: [backend.origin] };
  const config = { environments: { staging } };
  await using served = await spawnGateway({ upstreams: [backend.origin], config });
  const told = `There is no environment production, and the account ${ACCOUNT} has it`;
  const warned = () => served.said.filter(({ msg }) => msg === "config_warning");
  await eventually(() => assert.equal(warned().length, 1));
  assert.ok(String(warned()[0]?.why).startsWith(told), String(warned()[0]?.why));

  await served.rewrite({ keyPrefix: "acme" });
  await served.running.line(({ kind }) => kind === "config_reloaded");
  await served.running.stop();
  assert.equal(warned().length, 1, JSON.stringify(warned()));
});
