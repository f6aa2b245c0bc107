import { createHash } from "node:crypto";
import { type FSWatcher, watch } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** A file that has not changed for this long is saved: editors write in steps. */
const SETTLE_MS = 100;
/** File systems stamp a change with the last tick of the kernel's clock. */
const TICK_MS = 10;
/** File systems that report no changes (network, some containers) are polled. */
const POLL_MS = 500;
/** How long a file may be missing while somebody replaces it. */
const MISSING_MS = 5_000;

type FileWatcher = {
  /**
   * Replaces the set of watched files. They were read from `readFromMs` on, in Unix milliseconds: a
   * further file that was saved since then counts as saved. If they were refused, a change of their
   * rights counts as a save too, because these may be the reason.
   */
  setFiles(files: readonly string[], readFromMs: number, refused?: boolean): Promise<void>;
};

/**
 * Calls `onSave` when one of the files was saved: written in place, or replaced by a rename, as
 * editors and configuration mounts do. It watches the folders, because a renamed file is another
 * file. A file that is missing for a moment does not count until it is back. One that is missing for
 * longer, or that this user may no longer read, counts once: the next start would fail.
 */
export function watchFiles(onSave: (because: "file saved" | "file missing") => void): FileWatcher {
  let files: readonly string[] = [];
  let seen: Prints = new Map();
  const watchers: FSWatcher[] = [];
  let looking = false;
  let whole = false;
  const longMissing = missingFor(MISSING_MS);

  function tellMissing(now: Prints): void {
    const overdue = longMissing([...seen.keys()].filter((file) => !now.has(file)));
    if (overdue.length === 0) return;
    seen = new Map([...seen].filter(([file]) => !overdue.includes(file)));
    onSave("file missing");
  }

  async function look(): Promise<void> {
    if (looking) return;
    looking = true;
    let now = await printsOf(files, seen);
    if (!differs(now, seen, whole)) {
      seen = new Map([...seen, ...now]);
      tellMissing(now);
    } else {
      for (let last: Prints = new Map(); differs(now, last, whole); ) {
        last = now;
        await sleep(SETTLE_MS, undefined, { ref: false });
        now = await printsOf(files, now);
      }
      seen = now;
      onSave("file saved");
    }
    looking = false;
  }

  setInterval(() => void look(), POLL_MS).unref();

  return {
    async setFiles(next, readFromMs, refused = false) {
      for (const watcher of watchers.splice(0)) watcher.close();
      // Rights may have changed unnoticed since a good reading, and this one went by them.
      const read = refused ? next : next.filter((file) => !seen.has(file));
      const prints = await printsOf(read, new Map(), readFromMs - TICK_MS);
      const kept = [...seen].filter(([file]) => next.includes(file));
      seen = new Map([...kept, ...prints]);
      files = next;
      whole = refused;
      watchers.push(...watchFolders(next, () => void look()));
    },
  };
}

/** Has the system tell of changes of these files. */
function watchFolders(files: readonly string[], look: () => void): readonly FSWatcher[] {
  const names = new Set<string | null>(files.map((file) => basename(file)));
  return [...new Set(files.map((file) => dirname(file)))].flatMap((folder) => {
    try {
      // A log or a state file in the same folder changes all the time.
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (names.has(name)) look();
      });
      return watcher.on("error", () => {});
    } catch {
      // The poll still notices it: the system may have no watches left, or the folder may be gone.
      return [];
    }
  });
}

/** Returns those of the files that are missing at each call that have been so for `longMs`. */
function missingFor(longMs: number): (missing: readonly string[]) => readonly string[] {
  /** On performance.now(). */
  let since: ReadonlyMap<string, number> = new Map();
  return (missing) => {
    const nowMs = performance.now();
    since = new Map(missing.map((file) => [file, since.get(file) ?? nowMs]));
    return missing.filter((file) => nowMs - (since.get(file) ?? nowMs) >= longMs);
  };
}

/** By file, a value that changes with a save, the time of the last change of any kind, and the content. */
type Prints = ReadonlyMap<string, Print>;
type Print = { readonly saved: string; readonly changedNs: bigint; readonly content: string };

/**
 * Leaves out files that are missing, cannot be read, or have changed since `untilMs`, in Unix
 * milliseconds. A file that has not changed since `before` is not read.
 */
async function printsOf(
  files: readonly string[],
  before: Prints,
  untilMs = Number.POSITIVE_INFINITY,
): Promise<Prints> {
  const prints = new Map<string, Print>();
  for (const file of files) {
    const found = await stat(file, { bigint: true }).catch(() => undefined);
    // A rename changes the ctime and keeps the mtime.
    if (found === undefined || Number(found.ctimeMs) > untilMs) continue;
    const { ino, size, mtimeNs, ctimeNs: changedNs } = found;
    const [saved, last] = [`${ino} ${size} ${mtimeNs}`, before.get(file)];
    const isSame = last?.saved === saved && last.changedNs === changedNs;
    const content = isSame ? last.content : found.isFile() ? await digestOf(file) : "";
    if (content !== undefined) prints.set(file, { saved, changedNs, content });
  }
  return prints;
}

/** Undefined if the file cannot be read. */
async function digestOf(file: string): Promise<string | undefined> {
  const bytes = await readFile(file).catch(() => undefined);
  return bytes && createHash("sha1").update(bytes).digest("base64");
}

/** A tool may set the time of a save back to a fixed one, so the content is compared too. */
function differs(now: Prints, before: Prints, whole: boolean): boolean {
  return [...now].some(([file, { saved, changedNs, content }]) => {
    const last = before.get(file);
    if (last?.saved !== saved || last.content !== content) return true;
    return whole && last.changedNs !== changedNs;
  });
}
