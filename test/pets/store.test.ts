import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { type TestContext, test } from "vitest";
import { startPets } from "../../src/pets/server.ts";
import { assertError, openApi } from "./api.ts";

function directory(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "pets-"));
  t.onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

/** Starts, adds `count` animals, stops. */
async function fill(dataFile: string, count: number): Promise<void> {
  const pets = await startPets({ host: "127.0.0.1", port: 0, dataFile });
  for (let i = 0; i < count; i++) {
    const body = `{"name":"Pet ${i} ${"é".repeat(100)}","categoryId":9223372036854775807}`;
    const headers = { "content-type": "application/json" };
    await fetch(`${pets.url}/v1/pets`, { method: "POST", headers, body });
  }
  await pets.stop();
}

/** Claims that the file is refused, in one line that names it, and is left as it was. */
async function assertRefused(dataFile: string, why: RegExp): Promise<void> {
  const before = readFileSync(dataFile);
  const startedAnyway = startPets({ host: "127.0.0.1", port: 0, dataFile }).then((it) => it.stop());
  await assert.rejects(startedAnyway, (error: Error) => {
    assert.ok(error.message.startsWith(`Cannot keep pets in ${dataFile}: `), error.message);
    assert.match(error.message, why);
    assert.doesNotMatch(error.message, /\n/);
    return true;
  });
  assert.ok(before.equals(readFileSync(dataFile)), "the file has changed");
}

test("animals survive a restart, exact to the last digit, and ids go on", async (t) => {
  const dataFile = join(directory(t), "new", "deep", "pets.db");
  await fill(dataFile, 3);
  const api = await openApi(t, { dataFile });
  const { text, json } = await api.get("/v1/pets");
  assert.equal((json as unknown[]).length, 3);
  assert.equal(text.match(/"categoryId":9223372036854775807/g)?.length, 3);
  assert.match((await api.post({ name: "Ada", categoryId: 1 })).text, /^\{"id":4,/);
});

test("what was answered survives a crash: the file and its log, copied from a live server", async (t) => {
  const folder = directory(t);
  const live = join(folder, "live.db");
  const api = await openApi(t, { dataFile: live });
  for (let i = 0; i < 50; i++) await api.post({ name: `Pet ${i}`, categoryId: i });
  const copy = join(folder, "copy.db");
  copyFileSync(live, copy);
  copyFileSync(`${live}-wal`, `${copy}-wal`);
  const again = await openApi(t, { dataFile: copy });
  assert.equal(((await again.get("/v1/pets?limit=100")).json as unknown[]).length, 50);
});

test("a stop leaves one file, with everything in it", async (t) => {
  const dataFile = join(directory(t), "pets.db");
  await fill(dataFile, 2);
  assert.deepEqual([existsSync(`${dataFile}-wal`), existsSync(`${dataFile}-shm`)], [false, false]);
});

test("two servers on one file see each other's animals and never share an id", async (t) => {
  const dataFile = join(directory(t), "pets.db");
  const [one, two] = [await openApi(t, { dataFile }), await openApi(t, { dataFile })];
  const made = await Promise.all(
    Array.from({ length: 60 }, (_, i) => (i % 2 ? one : two).post({ name: "Ada", categoryId: i })),
  );
  assert.equal(new Set(made.map(({ json }) => (json as { id: number }).id)).size, 60);
  assert.equal(
    (await one.get("/v1/pets?limit=100")).text,
    (await two.get("/v1/pets?limit=100")).text,
  );
});

test("without a file each server has animals of its own", async (t) => {
  const [one, two] = [await openApi(t), await openApi(t)];
  await one.post({ name: "Ada", categoryId: 1 });
  assert.equal((await two.get("/v1/pets")).text, "[]");
});

test("a seed is for a new table only, and only where asked for", async (t) => {
  const dataFile = join(directory(t), "pets.db");
  const count = async (seed?: boolean) => {
    const options = seed === undefined ? { dataFile } : { dataFile, seed };
    const pets = await startPets({ host: "127.0.0.1", port: 0, ...options });
    const list = (await (await fetch(`${pets.url}/v1/pets`)).json()) as unknown[];
    await pets.stop();
    return list.length;
  };
  assert.deepEqual([await count(), await count(true)], [0, 0]);
  rmSync(dataFile);
  assert.deepEqual([await count(true), await count(true), await count()], [5, 5, 5]);
  const inMemory = await openApi(t, { seed: true });
  const { json } = await inMemory.get("/v1/pets?status=available");
  assert.ok((json as unknown[]).length > 0, "the successor of getPet shows something");
});

test("a file that is not a database is refused and left as it was", async (t) => {
  const dataFile = join(directory(t), "pets.db");
  for (const content of ["x", "not a database\n".repeat(1_000), "SQLite format 3\0 or so"]) {
    writeFileSync(dataFile, content);
    await assertRefused(dataFile, /file is not a database/);
  }
});

test("a damaged database is refused and left as it was", async (t) => {
  const dataFile = join(directory(t), "pets.db");
  await fill(dataFile, 200);
  const whole = readFileSync(dataFile);
  writeFileSync(dataFile, whole.subarray(0, whole.length - 5_000));
  await assertRefused(dataFile, /malformed|damaged/);
  const overwritten = Buffer.from(whole);
  overwritten.fill(0x55, 4 * 4_096, 4 * 4_096 + 500);
  writeFileSync(dataFile, overwritten);
  await assertRefused(dataFile, /damaged/);
  writeFileSync(dataFile, whole);
  await (await startPets({ host: "127.0.0.1", port: 0, dataFile })).stop();
});

test("a database of something else is refused and left as it was", async (t) => {
  const dataFile = join(directory(t), "other.db");
  const db = new DatabaseSync(dataFile);
  db.exec("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
  db.close();
  await assertRefused(dataFile, /a database of something else/);
});

test("the folder of the data may be made by two processes at once, as those of two environments are", async (t) => {
  const folder = directory(t);
  const store = pathToFileURL(join(import.meta.dirname, "../../src/pets/store.ts"));
  // Whichever is behind finds the folders made and catches up, so that both come to the same ones.
  const script = `
    import { openPets } from "${store}";
    const [folder, name] = process.argv.slice(1);
    for (let i = 0; i < 200; i++) openPets(\`\${folder}/\${i}/a/b/\${name}.db\`, []).close();
  `;
  const made = await Promise.all(
    ["production", "staging"].map((name) => {
      const args = ["--input-type=module", "-e", script, folder, name];
      return promisify(execFile)(process.execPath, args).then(
        () => "made",
        (error: Error) => error.message,
      );
    }),
  );
  assert.deepEqual(made, ["made", "made"]);
});

test("an empty file is a new database; what can hold no file is refused at once, and why", async (t) => {
  const folder = directory(t);
  const dataFile = join(folder, "pets.db");
  writeFileSync(dataFile, "");
  await fill(dataFile, 1);
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  const refused: [string, RegExp][] = [
    [folder, /it is a folder/],
    [join(dataFile, "pets.db"), /ENOTDIR: not a directory/],
    [join(dataFile, "new", "pets.db"), /ENOTDIR: not a directory/],
    ["/proc/pets.db", /ENOENT: no such file or directory|EACCES: permission denied/],
    [pipe, /it is no regular file/],
    ["/dev/null", /it is no regular file/],
  ];
  for (const [path, why] of refused) {
    await assert.rejects(startPets({ host: "127.0.0.1", port: 0, dataFile: path }), {
      message: new RegExp(
        `^Cannot keep pets in ${path}: ${why.source}.*; name a file that this user may write, in a`,
      ),
    });
  }
});

test("what fails inside is 500 without a word of why, and is told to the owner", async (t) => {
  const dataFile = join(directory(t), "pets.db");
  const failures: unknown[] = [];
  const api = await openApi(t, { dataFile, onError: (error) => failures.push(error) });
  const db = new DatabaseSync(dataFile);
  db.exec("DROP TABLE pets");
  db.close();
  const answer = await api.get("/v1/pets/1");
  assertError(answer, 500, "internal_error");
  assert.doesNotMatch(answer.text, /SQL|table/);
  assert.match(String(failures), /no such table/);
});
