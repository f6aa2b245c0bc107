import { isAbsolute, join, resolve } from "node:path";
import { readTextFile, type TextFileResult } from "./text-file.ts";

const REFERENCE = /\$\{file:([^{}$]+)\}/g;
/** A secret is a line or a certificate, never more. */
const BYTES_MAX = 64 * 1024;
/** More references than this are no configuration that a person wrote. */
const FILES_MAX = 100;

/** The contents that stand for `${file:PATH}`, by PATH as written; `paths` are the files, absolute. */
export type ReferencedFiles = {
  readonly contents: ReadonlyMap<string, TextFileResult>;
  readonly paths: readonly string[];
};

/**
 * Reads the files that the text of a configuration names in `${file:PATH}`, relative to `folder`.
 * One line break at the end, which editors and secret mounts add, is left out. A file that cannot
 * be read is a mistake only where its reference is replaced: a comment may name one.
 */
export async function readReferencedFiles(text: string, folder: string): Promise<ReferencedFiles> {
  const named = new Set([...text.matchAll(REFERENCE)].map(([, path = ""]) => path.trim()));
  const contents = new Map<string, TextFileResult>();
  const paths: string[] = [];
  for (const path of [...named].slice(0, FILES_MAX)) {
    const file = isAbsolute(path) ? path : resolve(join(folder, path));
    const read = await readTextFile(file, BYTES_MAX);
    contents.set(path, read.ok ? { ...read, text: read.text.replace(/\r?\n$/, "") } : read);
    paths.push(file);
  }
  return { contents, paths };
}
