import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, it } from "vitest";
import { loadConfig } from "../../../src/config/load/load.ts";
import { plansReport } from "../../../src/config/queries/plans-report.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { runTollgate, startTollgate } from "../../support/gateway/processes.ts";
import { provided } from "../../support/needing.ts";
import { freePorts, jsonOf, openFolder, runVerb } from "../kit.ts";

/** The prefix of keys that a folder's name gives. */
const prefixOf = (path: string) =>
  basename(path)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, "");

describe("init", () => {
  it("writes a configuration that works as it is, in a folder that is not there yet", async () => {
    await using folder = await openFolder();
    await using backend = await startTestUpstream();
    const file = join(folder.path, "config", "tollgate.yaml");
    const written = await runVerb(["init", "--upstream", backend.origin, "--config", file]);
    assert.deepEqual([written.status, written.err], [0, ""]);
    assert.equal(
      written.out,
      `${file} is written: clients at http://127.0.0.1:8080 in front of ${backend.origin}

Next:
  tollgate keys create --env production --plan free --config ${file}
  tollgate start --config ${file}
`,
    );
    const checked = await runVerb(["check", file]);
    assert.deepEqual([checked.status, checked.err], [0, ""]);
    assert.ok(checked.out.startsWith(`${file} is fine: production`), checked.out);

    const [listen, admin] = await freePorts(2);
    const text = (await readFile(file, "utf8")).replace("8080", String(listen));
    await writeFile(file, `${text}admin: { listen: "127.0.0.1:${admin}" }\n`);
    const args = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
    const { key } = jsonOf<{ key: string }>(await runVerb([...args, "--config", file]));
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving");
    const headers = { Authorization: `Bearer ${key}` };
    const answer = await fetch(`http://127.0.0.1:${listen}/any/path`, { headers });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get("x-ratelimit-limit"), "60");
  });

  it("asks at a terminal, takes the default with --yes, and needs one of them elsewhere", async () => {
    await using folder = await openFolder();
    const at = (name: string) => ["--config", join(folder.path, name), "--json"];
    const plain = (name: string) => ["--config", join(folder.path, name)];
    const questions: string[] = [];
    const asked = await runVerb(["init", ...plain("asked.yaml")], {
      answer: [" http://10.0.0.7:80 ", " acme "],
      onQuestion: (question) => void questions.push(question),
    });
    assert.equal(asked.status, 0);
    assert.deepEqual(questions, [
      "Your backend, as an origin [http://127.0.0.1:3000]: ",
      `The first part of your keys, so that a leaked one is recognized [${prefixOf(folder.path)}]: `,
    ]);
    const text = await readFile(join(folder.path, "asked.yaml"), "utf8");
    assert.match(text, /http:\/\/10\.0\.0\.7:80(?:.*\n)+?keyPrefix: "acme"/);
    const empty = await runVerb(["init", ...plain("empty.yaml")], { answer: "" });
    assert.match(empty.out, /in front of http:\/\/127\.0\.0\.1:3000\n/);
    const atTerminal = { answer: "x", onQuestion: () => assert.fail("--yes asks nothing") };
    const npx = { env: { npm_command: "exec" }, ...atTerminal };
    const ofNpx = await runVerb(["init", "--yes", ...plain("npx.yaml")], npx);
    assert.match(ofNpx.out, /^ {2}npx tollgate start --config/m);
    const checkout = { env: { npm_lifecycle_event: "tollgate" } };
    const ofCheckout = await runVerb(["init", "--yes", ...plain("checkout.yaml")], checkout);
    assert.match(ofCheckout.out, /^ {2}npm run -s tollgate -- start --config/m);
    const yes = await runVerb(["init", "--yes", ...at("yes.yaml")]);
    assert.deepEqual(jsonOf(yes), {
      ...{ file: join(folder.path, "yes.yaml"), upstream: "http://127.0.0.1:3000" },
      keyPrefix: prefixOf(folder.path),
    });
    const silent = await runVerb(["init", ...at("silent.yaml")], { answer: "http://10.0.0.7:80" });
    assert.equal(silent.status, 64);
    assert.match(silent.err, /^Missing --upstream URL: .*:3000, .*--yes\n$/);
    assert.ok(!existsSync(join(folder.path, "silent.yaml")));
  });

  it("writes an address that looks like a variable of the environment as it is", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "tollgate.yaml");
    const upstream = `http://\${home}.example:80`;
    const written = await runVerb(["init", "--upstream", upstream, "--config", file, "--json"]);
    assert.equal(written.status, 0, written.err);
    const loaded = await loadConfig(file, { home: "elsewhere" });
    assert.ok(loaded.ok, JSON.stringify(loaded));
    const [production] = loaded.config.environments;
    assert.match(JSON.stringify(production?.upstreams), /\$\{home\}\.example/);
    assert.deepEqual(production?.listen, { host: "127.0.0.1", port: 8080 });
    const limits = plansReport(loaded.config, []).map(({ plan, limits }) => [plan, ...limits]);
    assert.deepEqual(limits, [
      ["free", { window: "minute", limit: 60 }, { window: "day", limit: 1_000 }],
      ["pro", { window: "minute", limit: 300 }, { window: "day", limit: 10_000 }],
    ]);
  });

  it("gives keys a prefix of their own: the answer, the option, or the folder's name", async () => {
    await using folder = await openFolder();
    const prefixIn = async (file: string) =>
      /^keyPrefix: "(.*?)"/m.exec(await readFile(file, "utf8"))?.[1];
    const file = join(folder.path, "My-Pet Shop 2", "config", "tollgate.yaml");
    assert.equal((await runVerb(["init", "--yes", "--config", file])).status, 0);
    assert.equal(await prefixIn(file), "mypetshop2");
    const named = join(folder.path, "named.yaml");
    const args = ["init", "--yes", "--key-prefix", "acme", "--config", named, "--json"];
    assert.equal(jsonOf(await runVerb(args)).keyPrefix, "acme");
    // A gateway with keys of its own may run at the usual port.
    const [admin] = await freePorts(1);
    await appendFile(named, `admin: { listen: "127.0.0.1:${admin}" }\n`);
    const create = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
    const { key } = jsonOf<{ key: string }>(await runVerb([...create, "--config", named]));
    assert.match(key, /^acme_live_/);
    const piped = join(folder.path, "Zoo", "tollgate.yaml");
    const given = ["init", "--upstream", "http://127.0.0.1:80", "--config", piped];
    assert.equal((await runVerb(given)).status, 0);
    assert.equal(await prefixIn(piped), "zoo");
    const nameless = join(folder.path, "---", "tollgate.yaml");
    assert.equal((await runVerb(["init", "--yes", "--config", nameless])).status, 0);
    assert.equal(await prefixIn(nameless), "key");
    const long = join(folder.path, "a".repeat(40), "tollgate.yaml");
    assert.equal((await runVerb(["init", "--yes", "--config", long])).status, 0);
    assert.equal(await prefixIn(long), "a".repeat(32));
    const asked = join(folder.path, "asked.yaml");
    const typed = await runVerb(["init", "--config", asked], { answer: ["", "zoo"] });
    assert.equal(typed.status, 0);
    assert.equal(await prefixIn(asked), "zoo");
    const wrong = join(folder.path, "wrong.yaml");
    for (const prefix of ["Acme", "a_b", "$x", `\${x}`, 'a"b', "a".repeat(33)]) {
      const args = ["init", "--yes", "--key-prefix", prefix, "--config", wrong];
      const said = await runVerb(args, { env: { x: "acme" } });
      assert.equal(said.status, 64, prefix);
      const told = said.err.replace(`Cannot use ${JSON.stringify(prefix)} as --key-prefix: `, "");
      assert.match(told, /^Cannot read keyPrefix [^\n]+\n$/);
      assert.ok(!existsSync(wrong), prefix);
    }
  });

  it("writes the file that every verb takes, and so names it to none", async () => {
    await using folder = await openFolder();
    const inFolder = (...args: string[]) => runTollgate(args, { cwd: folder.path });
    const { code, stdout } = await inFolder("init", "--yes");
    assert.equal(code, 0);
    assert.match(
      stdout,
      /^ {2}tollgate keys create --env production --plan free\n {2}tollgate start\n$/m,
    );
    await writeFile(join(folder.path, "plans.yaml"), "plans: { free: { minute: 1 } }\n");
    await writeFile(join(folder.path, "gateway.log"), "");
    const tried = await inFolder("plans", "try", "plans.yaml", "--log", "gateway.log");
    assert.equal(tried.code, 0, tried.stderr);
  });

  it("replaces no file, and leaves none behind for a backend that it cannot use", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "tollgate.yaml");
    await writeFile(file, "mine");
    const there = await runVerb(["init", "--yes", "--config", file]);
    assert.equal(there.status, 1);
    assert.ok(there.err.startsWith(`${file} is there already: change it, or name `), there.err);
    assert.equal(await readFile(file, "utf8"), "mine");
    const other = join(folder.path, "other.yaml");
    for (const upstream of ["not a url", "http://x/path", 'http://x"]', "ftp://x"]) {
      const wrong = await runVerb(["init", "--upstream", upstream, "--config", other]);
      assert.equal(wrong.status, 64, upstream);
      const told = wrong.err.replace(`Cannot use ${JSON.stringify(upstream)} as --upstream: `, "");
      assert.match(told, /^Cannot read environments\.production\.upstreams[^\n]+\n$/);
      assert.ok(!existsSync(other), upstream);
    }
    for (const upstream of ["http://me:s3cret@127.0.0.1:80", "me:s3cret@127.0.0.1"]) {
      const wrong = await runVerb(["init", "--upstream", upstream, "--config", other]);
      assert.match(wrong.err, /^Cannot use "(?:http:\/\/)?\*\*\*@127\.0\.0\.1/);
      assert.ok(!wrong.err.includes("s3cret"), wrong.err);
    }
  });

  it(
    "leaves no half of a file where it cannot be written whole",
    provided(process.platform === "linux", "Linux"),
    async () => {
      await using folder = await openFolder();
      const file = join(folder.path, "tollgate.yaml");
      const node = join(import.meta.dirname, "../../../node_modules/.bin/node");
      const main = join(import.meta.dirname, "../../../src/main.ts");
      // Under this limit a file can be made, and nothing be written to it, as on a full disk.
      const script = `trap "" XFSZ; ulimit -f 0; exec "${node}" "${main}" init --yes --config "${file}"`;
      const { status, stderr } = spawnSync("bash", ["-c", script], { encoding: "utf8" });
      assert.equal(status, 1, stderr);
      assert.match(stderr, /^Cannot write .*tollgate\.yaml: the system says EFBIG$/m);
      assert.equal(existsSync(file), false);
    },
  );
});
