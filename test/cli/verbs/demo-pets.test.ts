import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, it, vi } from "vitest";
import { startDemoPets } from "../../../src/cli/verbs/demo-pets.ts";
import { isAlive } from "../../support/is-alive.ts";
import { eventually } from "../../support/poll.ts";
import { type Folder, openFolder } from "../kit.ts";

const SETTING = "environments.production.upstreams[0]";

/** Starts pets whose process runs this program. What was said of them comes with them. */
async function startPets(
  folder: Folder,
  program: string,
  upstreams: readonly string[] = ["http://127.0.0.1:9"],
) {
  const main = join(folder.path, "pets.cjs");
  await writeFile(main, program);
  const said: string[] = [];
  const config = {
    environments: [{ name: "production", upstreams }],
    stateFile: join(folder.path, "state.json"),
  };
  const terminal = {
    process: { self: [process.execPath, main] },
    err: (text: string) => void said.push(text),
  };
  return { said, pets: await startDemoPets(config as never, terminal as never) };
}

describe("the pets of npm start", () => {
  it.for([
    ["SIGKILL", `process.kill(process.pid, "SIGKILL");`],
    ["3", "process.exit(3);"],
  ] as const)("that end before they are ready say how: %s", async ([how, program]) => {
    await using folder = await openFolder();
    const message = `Cannot start the pets at 127.0.0.1:9 (${SETTING}): their process ended with ${how}`;
    await assert.rejects(startPets(folder, program), { message });
  });

  it.for([
    ["http://[::1]:9", "[::1]:9"],
    ["http://127.0.0.1", "127.0.0.1:80"],
  ] as const)(
    "are told with the address at which they should listen: %s",
    async ([upstream, at]) => {
      await using folder = await openFolder();
      const message = `Cannot start the pets at ${at} (${SETTING}): their process ended with 3`;
      await assert.rejects(startPets(folder, "process.exit(3);", [upstream]), { message });
    },
  );

  it("leave none of them behind where one cannot start, and name its place", async () => {
    await using folder = await openFolder();
    const program = `const { existsSync, writeFileSync } = require("node:fs");
      const file = __dirname + "/pid";
      const fail = () => existsSync(file) && process.exit(3);
      if (process.argv.includes("127.0.0.1:9")) setInterval(fail, 10);
      else writeFileSync(file, String(process.pid));
      process.on("disconnect", () => setTimeout(() => process.exit(0), 200));`;
    const others = ["http://192.0.2.1:9", "https://127.0.0.1:8"];
    const upstreams = [...others, "http://127.0.0.1:7", "http://127.0.0.1:9"];
    const where = SETTING.replace("[0]", "[3]");
    const message = `Cannot start the pets at 127.0.0.1:9 (${where}): their process ended with 3`;
    await assert.rejects(startPets(folder, program, upstreams), { message });
    assert.equal(isAlive(Number(await readFile(join(folder.path, "pid"), "utf8"))), false);
  });

  it("that end later are told of with how they ended, and those that are stopped are not", async () => {
    await using folder = await openFolder();
    const ready = `process.send({ listening: "127.0.0.1:9" });`;
    const ended = await startPets(
      folder,
      `${ready} setTimeout(() => process.kill(process.pid, "SIGKILL"), 50);`,
    );
    const text = `The pets at 127.0.0.1:9 (${SETTING}) ended with SIGKILL\n`;
    await eventually(() => assert.deepEqual(ended.said, [text]));
    const stopped = await startPets(
      folder,
      `${ready} process.on("disconnect", () => process.exit(0));`,
    );
    await stopped.pets.stop();
    assert.deepEqual(stopped.said, []);
  });

  describe("that are silent or deaf", () => {
    const waits: (number | undefined)[] = [];
    afterEach(() => void vi.restoreAllMocks());

    /** Each wait is noted, and is a hundred times shorter. */
    const hurry = () => {
      const { setTimeout: wait } = globalThis;
      waits.length = 0;
      vi.spyOn(globalThis, "setTimeout").mockImplementation(((work: () => void, ms?: number) => {
        waits.push(ms);
        return wait(work, (ms ?? 0) / 100);
      }) as typeof setTimeout);
    };

    it("are waited for 15 s at the start, and killed 6 s after they were told to end", async () => {
      await using folder = await openFolder();
      hurry();
      const message = `Cannot start the pets at 127.0.0.1:9 (${SETTING}): they did not say in time`;
      const stays = "setInterval(() => {}, 1_000);";
      await assert.rejects(startPets(folder, stays), { message });
      assert.deepEqual(waits, [15_000, 6_000]);
      vi.restoreAllMocks();
      const ready = `process.send({ listening: "127.0.0.1:9" });`;
      const { pets, said } = await startPets(folder, `${stays} ${ready}`);
      hurry();
      await pets.stop();
      assert.deepEqual([waits, said], [[6_000], []]);
    });
  });
});
