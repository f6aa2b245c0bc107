import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "vitest";
import { startTollgate } from "./support/gateway/processes.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const readme = await readFile(join(ROOT, "README.md"), "utf8");
const scripts = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")).scripts;

/** Run elsewhere: by CI, by test/cli/demo.test.ts, and by test/docker.test.ts, step by step. */
const ELSEWHERE = [
  "npm ci",
  "npm start",
  "npm test",
  "docker build -t tollgate .",
  "docker run -p 8080:8080 -v ./config:/tollgate/config:ro -v tollgate-data:/tollgate/data tollgate",
];
const VERB = /^(?:(REDIS_URL)=(\S+) )?npm run -s tollgate -- (.*)$/;

const commands = [...readme.matchAll(/```sh\n(.*?)```/gs)]
  .flatMap(([, block = ""]) => block.trim().split("\n"))
  .filter((line) => !ELSEWHERE.includes(line));

test("the README has commands, and each is one that is run somewhere", () => {
  assert.ok(commands.length >= 6);
  for (const command of commands) assert.match(command, VERB);
  for (const name of ["start", "dev", "ok", "test", "tollgate", "fuzz", "bench:store"]) {
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
  for (const [, path = ""] of readme.matchAll(/\]\(((?!https?:)[^)#]+)[^)]*\)/g)) {
    assert.ok(existsSync(join(ROOT, path)), `README links to ${path}`);
  }
});
