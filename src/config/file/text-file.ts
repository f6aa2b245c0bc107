import { open } from "node:fs/promises";
import { errorCode } from "../../base/messages.ts";
import { isFilesShortage, RAISE_OPEN_FILES } from "../../base/open-files.ts";
import { openRegularFile, PipeError } from "../../base/open-regular-file.ts";
import { decodeUtf8, NOT_UTF8 } from "../../base/utf8.ts";

export type TextFileResult =
  | { readonly ok: true; readonly text: string }
  /**
   * The line, counted from 1, and the message. `isUnread`: the system was short of something or the
   * disk failed, which says nothing about the content of the file.
   */
  | {
      readonly ok: false;
      readonly line: number;
      readonly why: string;
      readonly isUnread?: boolean;
    };

const UNREAD: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE", "ENOMEM", "EIO"]);

/** Reads a UTF-8 file of at most `bytesMax`. Leaves out a byte order mark. */
export async function readTextFile(path: string, bytesMax: number): Promise<TextFileResult> {
  let bytes: Buffer;
  try {
    bytes = await readAtMost(path, bytesMax + 1);
  } catch (error) {
    const isUnread = UNREAD.has((error as NodeJS.ErrnoException).code);
    return { ok: false, line: 1, why: readErrorMessage(error), ...(isUnread && { isUnread }) };
  }
  if (bytes.length > bytesMax) {
    return { ok: false, line: 1, why: `it is larger than ${bytesMax} bytes` };
  }
  const text = decodeUtf8(bytes);
  if (text !== undefined) return { ok: true, text };
  return { ok: false, line: firstBadLine(bytes), why: NOT_UTF8 };
}

/** Why the first of these that could not be read for now could not be. */
export function unreadIn(results: Iterable<TextFileResult>): string | undefined {
  for (const result of results) if (!result.ok && result.isUnread) return result.why;
  return undefined;
}

/** Pipes that the caller of the program opened, as in `check /dev/stdin` or with `<(…)` of a shell. */
const HANDED_OVER = /^\/(?:dev\/(?:stdin$|fd\/)|proc\/)/;

async function readAtMost(path: string, bytesMax: number): Promise<Buffer> {
  const handle = await (HANDED_OVER.test(path) ? open(path) : openRegularFile(path));
  try {
    const chunks: Buffer[] = [];
    let left = bytesMax;
    while (left > 0) {
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(Math.min(left, 65_536)));
      if (bytesRead === 0) break;
      chunks.push(buffer.subarray(0, bytesRead));
      left -= bytesRead;
    }
    return Buffer.concat(chunks);
  } finally {
    await handle.close();
  }
}

/** Why a file cannot be read, in words. An error of another kind is rethrown. */
export function readErrorMessage(error: unknown): string {
  if (error instanceof PipeError) return error.message;
  const code = errorCode(error);
  if (code === "ENOENT") return "there is no such file; check the path";
  if (code === "EACCES") return "this user may not read it; check its permissions";
  if (code === "EISDIR") return "it is a folder; name a file";
  if (code === undefined) throw error;
  if (isFilesShortage(String(code)))
    return `too many files are open (${code}); ${RAISE_OPEN_FILES}`;
  return `the system says ${code}`;
}

/** A line feed is never part of another UTF-8 character, so each line can be checked by itself. */
function firstBadLine(bytes: Buffer): number {
  let line = 1;
  for (let start = 0; start < bytes.length; line++) {
    const feed = bytes.indexOf(0x0a, start);
    const end = feed === -1 ? bytes.length : feed + 1;
    if (decodeUtf8(bytes.subarray(start, end)) === undefined) return line;
    start = end;
  }
  return line;
}
