import { basename, dirname, extname, join } from "node:path";

/** The file that is written before it takes the place of another. */
export function temporaryOf(file: string): string {
  return `${file}.tmp`;
}

/** The file whose lock is that of another. */
export function lockOf(file: string): string {
  return `${file}.lock`;
}

/** `state.notes.json` next to `state.json`. */
export function notesFileOf(stateFile: string): string {
  return besideStateFile(stateFile, ".notes.json");
}

/** The folder `state.history` next to `state.json`. */
export function historyFolderOf(stateFile: string): string {
  return besideStateFile(stateFile, ".history");
}

function besideStateFile(stateFile: string, ending: string): string {
  return join(dirname(stateFile), `${basename(stateFile, extname(stateFile))}${ending}`);
}
