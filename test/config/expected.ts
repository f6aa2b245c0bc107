import { readdirSync, readFileSync } from "node:fs";
import type { Mistake } from "../../src/config/file/mistake.ts";

/** A file that says in its first comment lines what must be told of it: `# expect: LINE:COL: message`. */
export type BrokenFile = {
  readonly name: string;
  readonly path: string;
  readonly text: string;
  readonly mistakes: readonly string[];
  readonly warnings: readonly string[];
};

export function brokenFiles(folder: string): BrokenFile[] {
  const url = new URL(`${folder}/`, import.meta.url);
  return readdirSync(url)
    .filter((name) => name.endsWith(".yaml"))
    .map((name) => {
      const path = new URL(name, url).pathname;
      const text = readFileSync(path, "utf8");
      const told = (word: string) => {
        return text.split("\n").flatMap((line) => {
          return line.startsWith(`# ${word}: `) ? [line.slice(word.length + 4)] : [];
        });
      };
      const title = name.replace(".yaml", "");
      return { name: title, path, text, mistakes: told("expect"), warnings: told("warning") };
    });
}

/** As the comment lines have them; the folder of the file is left out of messages. */
export function placed(mistakes: readonly Mistake[], folder: string): string[] {
  return mistakes.map(({ line, column, message }) => {
    return `${line}:${column}: ${message.replaceAll(folder, "")}`;
  });
}
