import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

/** A fenced block of a page. */
export type Block = {
  /** The path of the page from the root, and the line of the opening fence. */
  readonly page: string;
  readonly line: number;
  /** The word behind the fence; "" if there is none. */
  readonly language: string;
  readonly text: string;
};

/** The pages for readers: README, the pages of docs, and the index of the examples. */
export function readerPages(): string[] {
  return globSync(["README.md", "docs/**/*.md", "examples/*.md"], { cwd: ROOT }).toSorted();
}

export function readPage(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** The fenced blocks of a page, in order. */
export function blocksOf(page: string): Block[] {
  const text = readPage(page);
  return [...text.matchAll(/^```([\w-]*)\n(.*?)^```$/gms)].map((found) => ({
    page,
    line: text.slice(0, found.index).split("\n").length,
    language: found[1] ?? "",
    text: found[2] ?? "",
  }));
}

/** The commands of a block, one each; a command that goes on after a backslash is one. */
export function commandsOf({ text }: Block): string[] {
  const lines = text.replaceAll(/\\\n\s*/g, " ").split("\n");
  return lines.map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
}

/** A `tollgate` command: its words, the variables in front of it, and the files of its streams. */
export type TollgateCommand = {
  readonly env: Readonly<Record<string, string>>;
  readonly words: readonly string[];
  readonly stdin: string | undefined;
  readonly stdout: string | undefined;
};

const PROGRAM =
  /^((?:[A-Z_]+=\S+ )*)(?:docker exec tollgate tollgate|docker run --rm tollgate|tollgate|npx tollgate|npm run -s tollgate --)(?: (.*))?$/;

/** Reads a line that runs `tollgate`, in whichever way the page starts it; undefined for others. */
export function tollgateCommand(line: string): TollgateCommand | undefined {
  const [, variables, rest = ""] = PROGRAM.exec(line) ?? [];
  if (variables === undefined) return undefined;
  const env = [...variables.matchAll(/([A-Z_]+)=(\S+)/g)].map(([, name = "", value = ""]) => {
    return [name, value] as const;
  });
  const all = [...rest.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, one, two, plain]) => {
    return one ?? two ?? plain ?? "";
  });
  const words: string[] = [];
  const streams: Record<string, string> = {};
  for (let i = 0; i < all.length; i++) {
    const word = all[i] ?? "";
    if (word === "<" || word === ">" || word === ">>") streams[word.slice(0, 1)] = all[++i] ?? "";
    else words.push(word);
  }
  return { env: Object.fromEntries(env), words, stdin: streams["<"], stdout: streams[">"] };
}
