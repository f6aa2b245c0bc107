import { type FileHandle, open } from "node:fs/promises";
import { type Readable, Transform } from "node:stream";
import { createGunzip } from "node:zlib";
import { errorCode } from "../../base/messages.ts";
import {
  isLoggedRequest,
  type LoggedEvent,
  type LoggedRequest,
  parseLoggedLine,
} from "./logged-line.ts";

export type LogListener = {
  readonly request: (line: LoggedRequest) => void;
  readonly event?: ((line: LoggedEvent) => void) | undefined;
  /** Called with the bytes of the files read so far, and the bytes of all files. */
  readonly progress?: ((bytes: number, bytesAll: number) => void) | undefined;
};

/**
 * The number of lines in the files. `damaged` lines were left out. `firstDamage` is `FILE:LINE`.
 */
export type LogSummary = {
  readonly lines: number;
  readonly requests: number;
  readonly damaged: number;
  readonly firstDamage: string | undefined;
};

/**
 * The longest line accepted. A gateway's lines are far shorter, because a path has at most 2,048
 * characters and headers are not logged.
 */
const LINE_CHARACTERS_MAX = 1024 ** 2;

/** A rotation appends these to the name of a log: `.1`, `-20261125`, `.gz`. */
const OF_ROTATION = /(?:\.gz|[.-]\d+)+$/;

/**
 * Reads logs, compressed by gzip or not, line by line. Files of one name, but for what a rotation
 * appends, are read from the oldest to the newest, because a process is followed through them. Files
 * that begin with the same request are copies of one log, as a rotation makes them: their lines are
 * reported once. Holds no more than one piece of one file at a time. If a file cannot be read,
 * rejects before it has reported any line.
 */
export async function readLogs(
  files: readonly string[],
  listener: LogListener,
): Promise<LogSummary> {
  const handles: FileHandle[] = [];
  try {
    let bytesAll = 0;
    for (const file of files) {
      const handle = await opened(file);
      handles.push(handle);
      bytesAll += (await handle.stat()).size;
    }
    const reads = new Map<string, number>();
    const tally = { lines: 0, requests: 0, damaged: 0, firstDamage: undefined };
    let bytes = 0;
    const advance = (more: number) => {
      bytes += more;
      listener.progress?.(bytes, bytesAll);
    };
    for (const { file, handle, id } of await inOrder(files, handles)) {
      const known = reads.get(id ?? "") ?? 0;
      const lines = await readOne(file, handle, { listener, tally, advance, known });
      if (id !== undefined) reads.set(id, Math.max(known, lines));
    }
    return tally;
  } finally {
    await Promise.all(handles.map((handle) => handle.close().catch(() => {})));
  }
}

/** Refuses pipes, because an audit reads its logs again when it has found a drift. */
async function opened(file: string): Promise<FileHandle> {
  let why: string;
  try {
    const handle = await open(file);
    const kind = await handle.stat();
    if (!kind.isDirectory() && !kind.isFIFO()) return handle;
    await handle.close();
    why = kind.isFIFO() ? "it is a pipe; name a file" : "it is a folder; name its files";
  } catch (error) {
    const code = errorCode(error);
    why = `${code === "ENOENT" ? "there is no such file" : `the system says ${code}`}; check the path`;
  }
  throw new Error(`Cannot read the log ${file}: ${why}`);
}

type Tally = { -readonly [Member in keyof LogSummary]: LogSummary[Member] };

type Reading = {
  readonly listener: LogListener;
  readonly tally: Tally;
  readonly advance: (bytes: number) => void;
  /** The first lines of the file that a copy of it has told. */
  readonly known: number;
};

/** Returns the number of lines up to the last that is whole. */
async function readOne(
  file: string,
  handle: FileHandle,
  { listener, tally, advance, known }: Reading,
): Promise<number> {
  let line = 0;
  let whole = 0;
  const take = (text: string, isEnded: boolean) => {
    line += 1;
    if (isEnded) whole = line;
    if (text === "" || line <= known) return undefined;
    tally.lines += 1;
    const told = text.length <= LINE_CHARACTERS_MAX ? tell(text, listener) : "damaged";
    if (told === "request") tally.requests += 1;
    if (told !== "damaged") {
      whole = line;
      return undefined;
    }
    tally.damaged += 1;
    tally.firstDamage ??= `${file}:${line}`;
    return undefined;
  };
  let isGzip = false;
  try {
    isGzip = await isCompressed(handle);
    await eachLine(contentOf(handle, isGzip, advance), take);
  } catch (error) {
    // The rest of a compressed file cannot be read if a part of it is broken or missing.
    if (!isGzip)
      throw new Error(`Cannot read the log ${file}: the system says ${errorCode(error)}`);
    tally.damaged += 1;
    tally.firstDamage ??= `${file}:${line + 1}`;
  }
  return whole;
}

type Log = LogStart & { readonly file: string; readonly handle: FileHandle };

async function inOrder(files: readonly string[], handles: readonly FileHandle[]): Promise<Log[]> {
  const series = new Map<string, Log[]>();
  for (const [i, file] of files.entries()) {
    const handle = handles[i] as FileHandle;
    const name = file.replace(OF_ROTATION, "");
    const log = { file, handle, ...(await beginningOf(handle)) };
    series.set(name, [...(series.get(name) ?? []), log]);
  }
  return [...series.values()].flatMap((logs) => logs.toSorted((a, b) => a.atMs - b.atMs));
}

type LogStart = {
  /** The first instant of a line, in Unix milliseconds; 0 if none can be read. */
  readonly atMs: number;
  /** The id of the first request; undefined if there is none that can be read. */
  readonly id: string | undefined;
};

async function beginningOf(handle: FileHandle): Promise<LogStart> {
  let id: string | undefined;
  let atMs = 0;
  const take = (text: string) => {
    tell(text, {
      request: (line) => {
        atMs ||= line.time;
        id = line.id;
      },
      event: ({ time }) => {
        atMs ||= Number(time ?? 0);
      },
    });
    return id !== undefined;
  };
  try {
    const content = contentOf(handle, await isCompressed(handle), () => {});
    await eachLine(content, take);
  } catch {
    // The file is told when it is read.
  }
  return { atMs, id };
}

async function isCompressed(handle: FileHandle): Promise<boolean> {
  const magic = await handle.read(Buffer.alloc(2), 0, 2, 0);
  return magic.buffer.readUInt16BE() === 0x1f8b;
}

function contentOf(
  handle: FileHandle,
  isGzip: boolean,
  advance: (bytes: number) => void,
): Readable {
  const raw = handle.createReadStream({ start: 0, autoClose: false });
  const counted = raw.pipe(countingBytes(advance));
  const read = isGzip ? createGunzip() : counted;
  raw.on("error", (error) => read.destroy(error));
  return isGzip ? counted.pipe(read) : read;
}

function countingBytes(advance: (bytes: number) => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      advance(chunk.length);
      done(null, chunk);
    },
  });
}

/**
 * Calls `take` for each line until it returns true. A line that is far too long is passed once, cut,
 * so that it counts as one. Only the last one may lack its end. NULs ahead of all lines hold nothing:
 * a file that was truncated under its writer begins with them.
 */
async function eachLine(
  stream: Readable,
  take: (line: string, isEnded: boolean) => boolean | undefined,
): Promise<void> {
  stream.setEncoding("utf8");
  let rest = "";
  let isInHole = true;
  for await (const read of stream as AsyncIterable<string>) {
    const piece: string = isInHole ? read.replace(/^\0+/, "") : read;
    isInHole &&= piece === "";
    let from = 0;
    for (let end = piece.indexOf("\n"); end !== -1; end = piece.indexOf("\n", from)) {
      if (take(rest + piece.slice(from, end), true)) return;
      rest = "";
      from = end + 1;
    }
    if (rest.length <= LINE_CHARACTERS_MAX) rest += piece.slice(from);
  }
  if (rest !== "") take(rest, false);
}

function tell(text: string, { request, event }: LogListener): "request" | "event" | "damaged" {
  const line = parseLoggedLine(text);
  if (line === undefined) return "damaged";
  if (isLoggedRequest(line)) {
    request(line);
    return "request";
  }
  event?.(line);
  return "event";
}
