import { resolve } from "node:path";
import { type ParsedDescription, parseDescription } from "../description/description-files.ts";
import { readTextFile, type TextFileResult, unreadIn } from "../file/text-file.ts";

const BYTES_MAX = 8 * 1024 ** 2;

/** The files of all descriptions of one configuration. Each is read and parsed once. */
export class DescriptionSources {
  readonly #sources = new Map<string, TextFileResult>();
  readonly #parsed = new Map<string, ParsedDescription>();

  readonly read = async (file: string): Promise<TextFileResult> => {
    const source = this.#sources.get(file) ?? (await readTextFile(file, BYTES_MAX));
    this.#sources.set(file, source);
    return source;
  };

  readonly parse = (file: string, text: string): ParsedDescription => {
    const parsed = this.#parsed.get(file) ?? parseDescription(file, text);
    this.#parsed.set(file, parsed);
    return parsed;
  };

  get unread(): string | undefined {
    return unreadIn(this.#sources.values());
  }

  get texts(): readonly string[] {
    return [...this.#sources.values()].map((source) => (source.ok ? source.text : ""));
  }

  get files(): readonly string[] {
    return [...this.#sources.keys()].map((file) => resolve(file));
  }
}
