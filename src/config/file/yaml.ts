import { type Document, LineCounter, type ParsedNode, parseDocument, type YAMLError } from "yaml";
import type { TextPosition } from "../../base/text-position.ts";
import { type Mistake, makeMistake } from "./mistake.ts";

export type ParsedYaml = {
  readonly document: Document.Parsed<ParsedNode>;
  readonly placeAt: (offset: number) => TextPosition;
};

/** Parses one YAML 1.2 document (JSON is one), or returns every place that is not YAML. */
export function parseYaml(
  text: string,
  file: string,
): { readonly parsed?: ParsedYaml; readonly mistakes: readonly Mistake[] } {
  const lineCounter = new LineCounter();
  const placeAt = (offset: number): TextPosition => {
    const { line, col } = lineCounter.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  let document: Document.Parsed<ParsedNode>;
  try {
    // The reader of the tree finds duplicate keys, because it can name them.
    document = parseDocument(text, { lineCounter, prettyErrors: false, uniqueKeys: false });
  } catch (error) {
    // The parser recurses: a hundred thousand brackets overflow its stack.
    if (!(error instanceof RangeError)) throw error;
    const message = "Cannot read the file: it is nested too deeply";
    return { mistakes: [{ file, line: 1, column: 1, message }] };
  }
  const mistakes: Mistake[] = [];
  let misplacedLine = Number.NEGATIVE_INFINITY;
  for (const error of [...document.errors, ...document.warnings]) {
    const message = `Cannot read the file as YAML: ${spoken(error)}`;
    const place = placeAt(error.pos[0]);
    // After one mistake the parser reports more on the rest of that line, and after a line in a
    // wrong column on the next one too.
    const isEcho = isMisplaced(error)
      ? place.line - misplacedLine <= 1
      : mistakes.some((one) => one.line === place.line && one.message === message);
    if (isMisplaced(error)) misplacedLine = place.line;
    if (!isEcho) mistakes.push(makeMistake(file, place, message));
  }
  return mistakes.length > 0 ? { mistakes } : { parsed: { document, placeAt }, mistakes };
}

const SAME_COLUMN = "items must start at the same column";

/** Whether the parser reports a line that begins in a wrong column, or what follows from one. */
function isMisplaced({ code, message }: YAMLError): boolean {
  if (code === "BAD_INDENT") return message.endsWith(SAME_COLUMN);
  return ["TAB_AS_INDENT", "BLOCK_AS_IMPLICIT_KEY", "MULTILINE_IMPLICIT_KEY"].includes(code);
}

/** The parser's own words, except those that repeat the text, because it may be a secret. */
function spoken({ code, message }: YAMLError): string {
  switch (code) {
    case "UNEXPECTED_TOKEN":
      return `there is text that does not belong here; put a value with special characters in quotes, and \${NAME} inside of { }`;
    case "TAB_AS_INDENT":
      return "a tab indents the line; use spaces";
    case "BLOCK_AS_IMPLICIT_KEY":
      return "there is a key inside of this value; begin the next line in the column of this one, or put a value with a colon in quotes";
    case "MULTILINE_IMPLICIT_KEY":
      return "there is a key without a colon and a space; write both after it";
    case "BAD_DQ_ESCAPE":
      return 'there is an unknown escape in "…"; write \\\\ for a backslash';
    case "BAD_SCALAR_START":
      return "a value cannot start with this character; put it in quotes";
    case "MULTIPLE_DOCS":
      return "there is a second document; keep one";
    case "TAG_RESOLVE_FAILED":
      return "there is a tag that does not fit or is unknown; remove it";
    case "RESOURCE_EXHAUSTION":
      return "it is nested too deeply";
    case "BAD_ALIAS":
      return "there is an alias or anchor that is malformed";
    default:
      return inOtherWords(message) ?? `${message.charAt(0).toLowerCase()}${message.slice(1)}`;
  }
}

/** A message of the parser that does not say what to do, in words that do. */
function inOtherWords(message: string): string | undefined {
  if (message.endsWith(SAME_COLUMN)) {
    return "the line begins in another column than its neighbours; indent all keys of a level alike";
  }
  if (message.startsWith("Implicit map keys")) {
    return "there is a key without a colon and a space; write both after it";
  }
  const quote = /^Missing closing (["'])quote$/.exec(message)?.[1];
  if (quote !== undefined) return `there is no closing ${quote}; add it`;
  const bracket = /must be sufficiently indented and end with a ([\]}])$/.exec(message)?.[1];
  if (bracket === undefined) return undefined;
  return `there is no closing ${bracket} deeper than its key; add it, or indent it`;
}
