import { isAbsolute, join, resolve } from "node:path";
import { readTextFile, type TextFileResult } from "./text-file.ts";

/** The environment as it was passed in: config/ never reads the process's own. */
export type Variables = Readonly<Record<string, string | undefined>>;

export type Substitution = {
  readonly text: string;
  /** Variables and files whose values are in the text. It may hold a secret and is never shown. */
  readonly used: readonly string[];
  /** Each mistake, with its remedy. */
  readonly mistakes: readonly string[];
};

const NO_FILES: ReadonlyMap<string, TextFileResult> = new Map();
const TOKEN = /\$\$|\$\{([^}]*)(\}?)/g;
const FILE = /^file:([^{}$]+)$/;
const REFERENCE = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}$]*))?$/;

/**
 * Replaces `${NAME}` and `${NAME:-default}` (the default if NAME is unset or empty) once; the
 * result is not substituted again. `${file:PATH}` becomes the content of that file, which was read
 * before. `$$` is a dollar, and so is a `$` before anything but a brace. The text of a malformed
 * reference is never shown, because it may be half of a password.
 */
export function substitute(
  text: string,
  variables: Variables,
  files: ReadonlyMap<string, TextFileResult> = NO_FILES,
): Substitution {
  const used: string[] = [];
  const mistakes: string[] = [];
  const replaced = text.replace(TOKEN, (whole, inner: string | undefined, close: string) => {
    if (whole === "$$") return "$";
    const path = close === "}" ? FILE.exec(inner ?? "")?.[1]?.trim() : undefined;
    if (path !== undefined) {
      const read = files.get(path);
      used.push(path);
      if (read?.ok) return read.text;
      mistakes.push(`cannot read the file ${path}: ${read?.why ?? "too many files are named"}`);
      return "";
    }
    const match = close === "}" ? REFERENCE.exec(inner ?? "") : null;
    if (match === null) {
      mistakes.push(
        `a reference is malformed; write \${NAME}, \${NAME:-default} or \${file:PATH}, without $ or braces in the default, and $$ for a dollar`,
      );
      return "";
    }
    const [, name = "", fallback] = match;
    const value = Object.hasOwn(variables, name) ? variables[name] : undefined;
    if (value !== undefined && (value !== "" || fallback === undefined)) {
      used.push(name);
      return value;
    }
    if (fallback !== undefined) return fallback;
    mistakes.push(
      `the environment has no ${name}; set it, or give a default: \${${name}:-default}`,
    );
    return "";
  });
  return { text: replaced, used, mistakes };
}

const FILE_REFERENCE = /\$\{file:([^{}$]+)\}/g;
/** A secret is a line or a certificate, and never larger than this. */
const BYTES_MAX = 64 * 1024;
/** A configuration that a person wrote has no more references than this. */
const FILES_MAX = 100;

/** The contents that replace `${file:PATH}`, by PATH as written; `paths` are absolute. */
export type ReferencedFiles = {
  readonly contents: ReadonlyMap<string, TextFileResult>;
  readonly paths: readonly string[];
};

/**
 * Reads the files that the text of a configuration names in `${file:PATH}`, relative to `folder`.
 * One line break at the end, which editors and secret mounts add, is left out. A file that cannot
 * be read is a mistake only if its reference is replaced, because a comment may name a file.
 */
export async function readReferencedFiles(text: string, folder: string): Promise<ReferencedFiles> {
  const named = new Set([...text.matchAll(FILE_REFERENCE)].map(([, path = ""]) => path.trim()));
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
