import { statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { historyFolderOf, lockOf, notesFileOf, temporaryOf } from "../../base/own-files.ts";
import type { Findings } from "../file/findings.ts";
import { isSameFile, realPath } from "../file/same-file.ts";
import type { Draft } from "./draft.ts";

/** Finds `keys` and `stateFile` that would overwrite each other, or what is kept next to them. */
export function checkOwnFiles(draft: Draft, findings: Findings): void {
  const { keys, stateFile } = ownPaths(draft, findings);
  if (keys === undefined || stateFile === undefined) return;
  const at = findings.isGiven(["stateFile"]) ? "stateFile" : "keys";
  if (isSameFile(keys, stateFile)) {
    findings.mistake(
      [at],
      "Cannot use the same file for keys and stateFile: each would overwrite the other; name two",
    );
    return;
  }
  if (draft.store?.kind !== "memory") return;
  const ofState = [...written(stateFile), ...writtenByMemory(draft, stateFile)];
  const both = ofState.find((one) => written(keys).some((other) => isSameFile(one, other)));
  if (both === undefined) return;
  const isHidden = ["keys", "stateFile"].some((key) => findings.tree.isSubstituted([key]));
  findings.mistake(
    [at],
    `Cannot use keys and stateFile together: both would write ${isHidden ? "one file" : both}; name other files`,
  );
}

function ownPaths({ keys, stateFile }: Draft, { file }: Findings) {
  const folder = dirname(resolve(file));
  return {
    keys: keys === undefined || keys === "redis" ? undefined : resolve(folder, keys),
    stateFile: stateFile === undefined ? undefined : resolve(folder, stateFile),
  };
}

/** A file that is replaced, and what stands next to the file that it leads to. */
function written(file: string): string[] {
  const target = realPath(file);
  return [target, lockOf(target), temporaryOf(target)];
}

function writtenByMemory({ store, history }: Draft, stateFile: string): string[] {
  if (store?.kind !== "memory") return [];
  const notes = realPath(notesFileOf(stateFile));
  const days = history === undefined ? [] : [historyFolderOf(stateFile)];
  return [notes, temporaryOf(notes), ...days];
}

/**
 * Finds the gateway's own files that the configuration reads, such as itself, and `forStart` also
 * paths at which this machine can have no file. A running gateway opened its files at its start. A
 * file that is missing is no mistake, because the gateway makes it.
 */
export function validateOwnFiles(
  draft: Draft,
  findings: Findings,
  { filesRead, forStart }: { readonly filesRead: readonly string[]; readonly forStart: boolean },
): void {
  const { keys, stateFile } = ownPaths(draft, findings);
  const usesStateFile = draft.store?.kind === "memory" || draft.keys === "redis";
  const files = { keys, stateFile: usesStateFile ? stateFile : undefined };
  for (const [key, path] of Object.entries(files)) {
    if (path === undefined) continue;
    const beside = key === "stateFile" ? writtenByMemory(draft, path) : [];
    const overwrites = [...written(path), ...beside].some((own) => {
      return filesRead.some((one) => isSameFile(one, own));
    });
    const why = overwrites ? READ_ELSEWHERE : forStart ? whyNoFile(path) : undefined;
    if (why === undefined) continue;
    const shown = findings.tree.isSubstituted([key]) ? "the path" : path;
    findings.mistake([key], `Cannot use ${shown} as ${key}: ${why}`);
  }
}

const READ_ELSEWHERE =
  "the configuration reads it, or what is kept next to it, as another file, which the gateway would overwrite; name a file of its own";

function whyNoFile(path: string): string | undefined {
  try {
    return statSync(path).isDirectory() ? "it is a folder; name a file" : undefined;
  } catch (error) {
    const isBelowFile = (error as NodeJS.ErrnoException).code === "ENOTDIR";
    return isBelowFile ? "a part of its path is no folder; check the path" : undefined;
  }
}
