import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "vitest";
import { parse } from "yaml";
import { loadFiles, told } from "./config/folder.ts";
import { each } from "./support/each.ts";
import { startTestGateway } from "./support/gateway/house.ts";
import { startTollgate } from "./support/gateway/processes.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const readme = await readFile(join(ROOT, "README.md"), "utf8");
const scripts = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")).scripts;

/**
 * Run elsewhere: by CI, and by test/cli/verbs/demo.test.ts. The lines with docker are run by
 * test/docker.test.ts, those of the package by test/package.release.test.ts.
 */
const ELSEWHERE = ["npm ci && npm start", "npm ci && npm test"];
const VERB = /^(?:(REDIS_URL)=(\S+) )?npm run -s tollgate -- (.*)$/;

const commands = [...readme.matchAll(/```sh\n(.*?)```/gs)]
  .flatMap(([, block = ""]) => block.trim().split("\n"))
  .filter((line) => !ELSEWHERE.includes(line) && !/^(?:docker|npx|npm install) /.test(line));

test("the first block of the README is two lines that do everything", () => {
  assert.equal(/```sh\n(.*?)\n```/s.exec(readme)?.[1], ELSEWHERE.join("\n"));
});

test("each configuration in the README is sound, added to the least one where it is a part", async () => {
  const [least = "", ...others] = [...readme.matchAll(/```yaml\n(.*?)```/gs)].map(
    ([, yaml = ""]) => yaml,
  );
  assert.ok(others.length >= 3);
  for (const yaml of [least, ...others]) {
    const whole = { ...parse(least), ...parse(yaml) };
    const loaded = await loadFiles(
      { "tollgate.yaml": JSON.stringify(whole) },
      { REDIS_URL: "redis://127.0.0.1:6379" },
    );
    assert.deepEqual(told(loaded), [], yaml);
  }
});

test("each configuration on the page about moving is sound by itself", async () => {
  const page = await readFile(join(ROOT, "docs/moving.md"), "utf8");
  const blocks = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, yaml = ""]) => yaml);
  assert.ok(blocks.length >= 2);
  for (const yaml of blocks) {
    assert.deepEqual(told(await loadFiles({ "tollgate.yaml": yaml })), [], yaml);
  }
});

test("the README has commands, and each is one that is run somewhere", () => {
  assert.ok(commands.length >= 6);
  for (const command of commands) assert.match(command, VERB);
  for (const name of ["start", "dev", "ok", "test", "tollgate", "fuzz", "bench"]) {
    assert.ok(scripts[name], `package.json has no script ${name}`);
  }
});

for (const command of commands) {
  test(`README: ${command}`, async () => {
    const [, name, value = "", words = ""] = VERB.exec(command) ?? [];
    const directory = await mkdtemp(join(tmpdir(), "tollgate-readme-"));
    try {
      await cp(join(ROOT, "config"), join(directory, "config"), { recursive: true });
      const file = join(directory, "config/tollgate.yaml");
      const text = await readFile(file, "utf8");
      await writeFile(file, text.replace(/(127\.0\.0\.1):(8080|8081|9090)\b/g, "$1:0"));
      const args = [...words.matchAll(/"([^"]*)"|(\S+)/g)].map(
        ([, quoted, plain]) => quoted ?? plain ?? "",
      );
      const env = name === undefined ? {} : { [name]: value };
      await using running = startTollgate(args, { cwd: directory, env });
      if (args[0] === "start") {
        await running.line(({ msg }) => msg === "serving");
        assert.equal((await running.stop()).code, 0);
      } else {
        assert.equal((await running.exited).code, 0, running.stderr());
      }
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });
}

test("every file that the README links to is there", () => {
  for (const [, path = ""] of each(readme.matchAll(/\]\(((?!https?:)[^)#]+)[^)]*\)/g))) {
    assert.ok(existsSync(join(ROOT, path)), `README links to ${path}`);
  }
});

test("every command in CONTRIBUTING.md names a script, a file or a folder that is there", async () => {
  const text = await readFile(join(ROOT, "CONTRIBUTING.md"), "utf8");
  const named = [...text.matchAll(/\bnpm\s+(?:run\s+)?(?:-s\s+)?([a-z][\w:]*)/g)].map(
    ([, name = ""]) => name,
  );
  assert.ok(named.length >= 5);
  const known = ["ci", "scripts", ...Object.keys(scripts)];
  assert.deepEqual(
    named.filter((name) => !known.includes(name)),
    [],
  );
  const paths = [...text.matchAll(/\bvitest (?:run )?(test\/[^\s`]+)/g)].map(
    ([, path = ""]) => path,
  );
  assert.ok(paths.length >= 3);
  for (const path of paths) assert.ok(existsSync(join(ROOT, path)), path);
});

test("every test that CONTRIBUTING.md runs by its name is there", async () => {
  const text = await readFile(join(ROOT, "CONTRIBUTING.md"), "utf8");
  const named = [...text.matchAll(/\bvitest (?:run )?(test\/\S+) -t "([^"]+)"/g)];
  for (const [command, folder = "", name = ""] of each(named)) {
    const files = await readdir(join(ROOT, folder), { recursive: true });
    const tests = files.filter((file) => file.endsWith(".test.ts"));
    const texts = await Promise.all(
      tests.map((file) => readFile(join(ROOT, folder, file), "utf8")),
    );
    const titles = texts.flatMap((one) => one.match(/\("[^"\n]+"/g) ?? []);
    assert.ok(
      titles.some((title) => title.includes(name)),
      command,
    );
  }
});

test("the 61st request of a Free key is answered as the README shows", async () => {
  const sample = /```text\n(HTTP\/1\.1 429 .*?)\n\n(.*?)\n```/s.exec(readme);
  const [status = "", ...fields] = (sample?.[1] ?? "").split("\n");
  assert.ok(fields.length >= 5);
  const told = new Headers(fields.map((field) => field.split(": ") as [string, string]));
  const resetSeconds = Number(told.get("x-ratelimit-reset"));
  const nowMs = (resetSeconds - Number(told.get("retry-after"))) * 1_000;
  await using house = await startTestGateway({ now: () => nowMs });
  const { key } = await house.issue({ plan: "free" });
  const statuses: number[] = [];
  for (let i = 0; i < 60; i++) {
    const answer = await house.ask(key);
    await answer.arrayBuffer();
    statuses.push(answer.status);
  }
  assert.deepEqual([...new Set(statuses)], [200]);
  const last = await house.ask(key);
  assert.equal(`HTTP/1.1 ${last.status} ${last.statusText}`, status);
  for (const [name, value] of told) assert.equal(last.headers.get(name), value, name);
  assert.equal(await last.text(), sample?.[2]);
  await house.law();
});
