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
  for (const error of [...document.errors, ...document.warnings]) {
    const message = `Cannot read the file as YAML: ${spoken(error)}`;
    const place = placeAt(error.pos[0]);
    // After one mistake the parser reports more on the rest of that line.
    const isEcho = mistakes.some((one) => one.line === place.line && one.message === message);
    if (!isEcho) mistakes.push(makeMistake(file, place, message));
  }
  return mistakes.length > 0 ? { mistakes } : { parsed: { document, placeAt }, mistakes };
}

/** The parser's own words, except those that repeat the text, because it may be a secret. */
function spoken({ code, message }: YAMLError): string {
  switch (code) {
    case "UNEXPECTED_TOKEN":
      return `there is text that does not belong here; put a value with special characters in quotes, and \${NAME} inside of { }`;
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
      return `${message.charAt(0).toLowerCase()}${message.slice(1)}`;
  }
}
