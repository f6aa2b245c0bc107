/** Reading source as text, for test/tidy.test.ts: the formatter keeps it regular enough for that. */

export type Import = { readonly path: string; readonly names: readonly string[] };

const IMPORT =
  /(?:^|\n)\s*(?:import|export)\s(?:type\s)?(?:([^"';]*?)\sfrom\s)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']/g;

/** Static, dynamic and type imports, in order. `names` are those in braces, without `type` and `as`. */
export function importsOf(text: string): Import[] {
  return [...withoutComments(text).matchAll(IMPORT)].map(([, clause = "", from, dynamic]) => {
    const braces = /\{([^}]*)\}/.exec(clause)?.[1] ?? "";
    const names = braces
      .split(",")
      .map((name) =>
        name
          .trim()
          .replace(/^type /, "")
          .replace(/ as .*$/, ""),
      )
      .filter((name) => name !== "");
    return { path: from ?? dynamic ?? "", names };
  });
}

export function withoutComments(text: string): string {
  return mask(text, { strings: false });
}

/** The comments alone: everything else becomes blanks, lines stay lines. */
export function commentsOf(text: string): string {
  const rest = withoutComments(text);
  return text
    .split("")
    .map((char, at) => (rest[at] === char && char !== "\n" ? " " : char))
    .join("");
}

/** The code alone: comments, strings and regular expressions become blanks, lines stay lines. */
export function codeOf(text: string): string {
  return mask(text, { strings: true });
}

function mask(text: string, { strings }: { strings: boolean }): string {
  let out = "";
  /** The depth of braces at which each open `${` ends. */
  const templates: number[] = [];
  let depth = 0;
  for (let at = 0; at < text.length; ) {
    const end = endOfToken(text, at, out, templates.at(-1) === depth);
    const piece = text.slice(at, end);
    const kind = piece.length === 1 ? "code" : kindOf(piece);
    if (piece === "{") depth += 1;
    if (piece === "}") depth -= 1;
    const closesHole = kind === "string" && piece.startsWith("}");
    if (closesHole) templates.pop();
    if (closesHole) depth -= 1;
    const opensHole = kind === "string" && piece.endsWith("${") && /^[`}]/.test(piece);
    if (opensHole) depth += 1;
    if (opensHole) templates.push(depth);
    out += kind === "comment" || (kind === "string" && strings) ? blank(piece) : piece;
    at = end;
  }
  return out;
}

function kindOf(piece: string): "comment" | "string" | "code" {
  if (piece.startsWith("//") || piece.startsWith("/*")) return "comment";
  return /^["'`/}]/.test(piece) ? "string" : "code";
}

function blank(piece: string): string {
  return piece.replaceAll(/[^\n]/g, " ");
}

/** Where the comment, string, expression or single character that starts here ends. */
function endOfToken(text: string, at: number, before: string, inHole: boolean): number {
  const rest = (pattern: RegExp) => {
    pattern.lastIndex = at;
    return pattern.exec(text)?.[0].length ?? 1;
  };
  const char = text[at];
  if (char === '"') return at + rest(/"(?:\\.|[^"\\\n])*"/y);
  if (char === "'") return at + rest(/'(?:\\.|[^'\\\n])*'/y);
  if (char === "`" || (char === "}" && inHole)) {
    return at + rest(/[`}](?:\\[\s\S]|(?!\$\{)[^`\\])*(?:`|\$\{)/y);
  }
  if (char !== "/") return at + 1;
  if (text[at + 1] === "/") return at + rest(/\/\/[^\n]*/y);
  if (text[at + 1] === "*") return at + rest(/\/\*[\s\S]*?\*\//y);
  const mayBeExpression = /(?:^|[(,=:[!&|?{};+~]|=>|\breturn|\btypeof|\bcase)\s*$/.test(
    before.slice(-40),
  );
  return mayBeExpression
    ? at + rest(/\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/y)
    : at + 1;
}

export type LongFunction = { readonly line: number; readonly length: number };

const OPENS_FUNCTION = /(?:=> |\) |\)(?: is|:) [^=]*[\w>\]})"|] )\{$/;
const OPENS_OTHER = /^\s*(?:\} )?(?:if|for|while|switch|catch|else|try|do|class|return class)\b/;

/**
 * Functions with more than `most` lines, by indentation: the formatter closes each with a `}` below
 * its first line. Blocks that only group tests are no functions in this sense.
 */
export function longFunctions(text: string, most: number): LongFunction[] {
  const lines = codeOf(text).split("\n");
  const raw = text.split("\n");
  const found: LongFunction[] = [];
  for (const [at, line] of lines.entries()) {
    if (!OPENS_FUNCTION.test(line.trimEnd()) || OPENS_OTHER.test(line)) continue;
    const indent = indentOf(line);
    const end = lines.findIndex(
      (later, i) => i > at && /^\s*\}/.test(later) && indentOf(later) === indent,
    );
    let start = at;
    if (/^\s*\)/.test(line)) {
      while (start > 0 && (start === at || indentOf(lines[start] ?? "") > indent)) start -= 1;
    }
    if (
      OPENS_OTHER.test(lines[start] ?? "") ||
      /\b(?:describe|suite)[\w.]*\(/.test(raw[start] ?? "")
    )
      continue;
    const length = end - start + 1;
    if (length > most) found.push({ line: start + 1, length });
  }
  return found;
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}
