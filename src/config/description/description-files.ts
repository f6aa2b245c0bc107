import { dirname, join, normalize, relative } from "node:path";
import { Findings } from "../file/findings.ts";
import type { ConfigPath, Mistake } from "../file/mistake.ts";
import type { TextFileResult } from "../file/text-file.ts";
import { parseTree } from "../file/tree.ts";
import { parseJsonPointer } from "./json-pointer.ts";

const VALUES_MAX = 500_000;
const FILES_MAX = 1_000;

export type ReadDescriptionFile = (path: string) => Promise<TextFileResult>;
export type ParsedDescription = ReturnType<typeof parseTree>;

/** Parses one file of a description. */
export function parseDescription(file: string, text: string): ParsedDescription {
  return parseTree(text, { file, variables: undefined, valuesMax: VALUES_MAX });
}

/** A place in one of the files of a description. */
export type DescriptionPlace = { readonly findings: Findings; readonly path: ConfigPath };

/**
 * The files of one description: the one that the configuration names, and others of its folder that
 * contain path items. Each is read and parsed once, and each mistake is noted at its place in the
 * file.
 */
export class DescriptionFiles {
  readonly main: Findings | undefined;
  readonly #file: string;
  readonly #readFile: ReadDescriptionFile;
  readonly #parseFile: typeof parseDescription;
  readonly #mistakes: Mistake[] = [];
  /** By path. A text says why there is no file. */
  readonly #findings = new Map<string, Findings | string>();

  constructor(
    file: string,
    text: string,
    readFile: ReadDescriptionFile,
    parseFile = parseDescription,
  ) {
    this.#file = normalize(file);
    this.#readFile = readFile;
    this.#parseFile = parseFile;
    const findings = this.#parse(file, text);
    this.#findings.set(this.#file, findings);
    this.main = typeof findings === "string" ? undefined : findings;
  }

  get mistakes(): readonly Mistake[] {
    return [...this.#mistakes, ...this.#all().flatMap(({ mistakes }) => mistakes)];
  }

  get warnings(): readonly Mistake[] {
    return this.#all().flatMap(({ warnings }) => warnings);
  }

  /**
   * The place that a reference leads to. A text says why it leads nowhere. Undefined if it is not a
   * reference to a file.
   */
  async resolve(reference: string, from: Findings): Promise<DescriptionPlace | string | undefined> {
    const [name = "", fragment = ""] = reference.split(/#(.*)/s);
    const path = fragment === "" && name !== "" ? [] : parseJsonPointer(`#${fragment}`);
    if (path === undefined) return undefined;
    if (name === "") return { findings: from, path };
    if (/^(?:[a-z][a-z0-9+.-]*:|\/)|[\\%\0]/i.test(name)) return undefined;
    const file = normalize(join(dirname(from.file), name));
    if (/^\.\.(?:\/|$)/.test(relative(dirname(this.#file), file))) {
      return "it leads out of the folder of the description; move the file into it";
    }
    const findings = await this.#open(file);
    return typeof findings === "string" ? findings : { findings, path };
  }

  async #open(file: string): Promise<Findings | string> {
    const known = this.#findings.get(file);
    if (known !== undefined) return known;
    if (this.#findings.size >= FILES_MAX) return `a description has at most ${FILES_MAX} files`;
    const source = await this.#readFile(file);
    const findings = source.ok ? this.#parse(file, source.text) : source.why;
    this.#findings.set(file, findings);
    return findings;
  }

  #parse(file: string, text: string): Findings | string {
    const read = this.#parseFile(file, text);
    this.#mistakes.push(...read.mistakes);
    return read.tree === undefined ? "it could not be read" : new Findings(file, read.tree);
  }

  #all(): readonly Findings[] {
    return [...this.#findings.values()].filter((one) => typeof one !== "string");
  }
}
