import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";

/** A file that cannot be read because it is a named pipe. */
export class PipeError extends Error {
  constructor() {
    super("it is a pipe; name a file");
    this.name = "PipeError";
  }
}

/**
 * Opens a file to read it. Rejects at once with a PipeError if it is a named pipe: to open one for
 * reading waits for a writer in a thread that no signal and no timeout can end.
 */
export async function openRegularFile(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if ((await handle.stat()).isFIFO()) throw new PipeError();
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}
