import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Page } from "./page.ts";
import { isPetStatus, type NewPet, type Pet } from "./pet.ts";

/**
 * `find` returns one animal more than the page holds if there are more, which shows that a next
 * page exists.
 */
export type PetStore = {
  add(pet: NewPet): Pet;
  get(id: bigint): Pet | undefined;
  find(page: Page): readonly Pet[];
  close(): void;
};

/** Marks the file as one of this program: "pets" in ASCII. */
const APPLICATION_ID = 0x70657473;
/** Ids are never reused, hence AUTOINCREMENT. */
const SCHEMA = `
  CREATE TABLE pets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    category_id INTEGER NOT NULL,
    status TEXT
  ) STRICT;
  CREATE INDEX pets_by_status ON pets (status, id);
  PRAGMA application_id = ${APPLICATION_ID};`;

/**
 * Opens the animals in `file`. Creates the file and its directories if they are missing. Without a
 * file the animals are kept in memory. If the file is damaged or belongs to another program, throws
 * an error of one line that names it, and leaves it unchanged. `seed` is written once, when the
 * table is created.
 */
export function openPets(file: string | undefined, seed: readonly NewPet[]): PetStore {
  if (file === undefined) return storeOver(prepare(new DatabaseSync(":memory:"), seed));
  // The path is absolute, because SQLite does not read "file:…" and ":memory:" as paths.
  const path = resolve(file);
  attempt(path, "name a file that this user may write, in a folder that it may write to", () => {
    makeFolder(dirname(path));
    requireWritable(path);
  });
  return attempt(path, "restore the file, move it away, or name another", () => {
    inspect(path);
    return storeOver(prepare(new DatabaseSync(path), seed));
  });
}

function attempt<T>(path: string, advice: string, action: () => T): T {
  try {
    return action();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`Cannot keep pets in ${path}: ${why}; ${advice}`, { cause });
  }
}

/**
 * Throws a reason that people understand, because SQLite says "disk I/O error" of a folder, and
 * waits for the other end of a pipe without an end.
 */
function requireWritable(path: string): void {
  const existing = statSync(path, { throwIfNoEntry: false });
  if (existing?.isDirectory()) throw new Error("it is a folder");
  if (existing !== undefined && !existing.isFile()) throw new Error("it is no regular file");
  // SQLite writes its log beside the file.
  accessSync(dirname(path), constants.W_OK);
  closeSync(openSync(path, "a"));
}

/**
 * Makes one folder at a time, because Node's recursive mkdir never ends when /proc reports ENOENT
 * for a folder in it.
 */
function makeFolder(path: string): void {
  const parent = dirname(path);
  if (existsSync(path)) return;
  if (parent !== path) makeFolder(parent);
  try {
    mkdirSync(path);
  } catch (error) {
    // The pets of another environment may have created the folder in between.
    if (!existsSync(path)) throw error;
  }
}

/**
 * Inspects the file read-only, because a writable connection would change a file that is then
 * refused.
 */
function inspect(file: string): void {
  // SQLite treats a file of one byte as empty and would overwrite it.
  if (statSync(file).size === 1) throw new Error("file is not a database");
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    db.exec("PRAGMA busy_timeout = 5000");
    const verdict = db.prepare("PRAGMA quick_check(1)").get()?.quick_check;
    if (verdict !== "ok") throw new Error(`the database is damaged (${oneLine(verdict)})`);
    if (!isNew(db) && !isOurs(db)) throw new Error("it is a database of something else");
  } finally {
    db.close();
  }
}

/**
 * WAL and NORMAL: animals that were confirmed survive a crash of the process, but may not survive a
 * power failure.
 */
function prepare(db: DatabaseSync, seed: readonly NewPet[]): DatabaseSync {
  try {
    db.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    db.exec("BEGIN IMMEDIATE");
    if (isNew(db)) {
      db.exec(SCHEMA);
      const insert = insertInto(db);
      for (const pet of seed) insert(pet);
    }
    db.exec("COMMIT");
    return db;
  } catch (cause) {
    db.close();
    throw cause;
  }
}

function isNew(db: DatabaseSync): boolean {
  return db.prepare("SELECT count(*) AS tables FROM sqlite_schema").get()?.tables === 0;
}

function isOurs(db: DatabaseSync): boolean {
  return db.prepare("PRAGMA application_id").get()?.application_id === APPLICATION_ID;
}

function storeOver(db: DatabaseSync): PetStore {
  const one = db.prepare("SELECT * FROM pets WHERE id = ?");
  const any = db.prepare("SELECT * FROM pets WHERE id > ? ORDER BY id LIMIT ?");
  const some = db.prepare("SELECT * FROM pets WHERE id > ? AND status = ? ORDER BY id LIMIT ?");
  for (const statement of [one, any, some]) statement.setReadBigInts(true);

  return {
    add: insertInto(db),
    get(id) {
      const row = one.get(id);
      return row && petOf(row);
    },
    find({ after, status, limit }) {
      const rows =
        status === undefined ? any.all(after, limit + 1) : some.all(after, status, limit + 1);
      return rows.map(petOf);
    },
    close: () => db.close(),
  };
}

function insertInto(db: DatabaseSync): (pet: NewPet) => Pet {
  const insert = db.prepare("INSERT INTO pets (name, category_id, status) VALUES (?, ?, ?)");
  insert.setReadBigInts(true);
  return (pet) => {
    const { lastInsertRowid } = insert.run(pet.name, pet.categoryId, pet.status ?? null);
    return { ...pet, id: BigInt(lastInsertRowid) };
  };
}

function petOf({ id, name, category_id, status }: Record<string, unknown>): Pet {
  const pet = { id: id as bigint, name: name as string, categoryId: category_id as bigint };
  return isPetStatus(status) ? { ...pet, status } : pet;
}

function oneLine(text: unknown): string {
  return String(text).replace(/\s+/g, " ").trim();
}
