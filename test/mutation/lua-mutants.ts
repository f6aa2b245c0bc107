/** One change to a script: `text` is the whole source with it. */
export type LuaMutant = {
  readonly line: number;
  readonly before: string;
  readonly after: string;
  readonly text: string;
};

/** Each operator beside those that take its place. */
const SWAPS: Readonly<Record<string, readonly string[]>> = {
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "==": ["~="],
  "~=": ["=="],
  "+": ["-"],
  "-": ["+"],
  "*": ["/"],
  "/": ["*"],
  "%": ["*"],
  and: ["or"],
  or: ["and"],
  not: [""],
  true: ["false"],
  false: ["true"],
};

/** Comments and strings are passed over; names, numbers and operators are tokens. */
const TOKEN =
  /--[^\n]*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\d+(?:\.\d+)?(?:e\d+)?|\.\.\.?|[<>=~]=|[-+*/%<>=]|[^\s]/g;
/** A statement on a line of its own that can be left out: a call, or an assignment that declares nothing. */
const STATEMENT = /^(\s*)((?:redis\.)?p?call\(.*\)|\w+\(.*\)|[\w.[\]#+ ,*-]+ = .*[^,{(=]|break)$/;

/**
 * All mutants of the Lua in `source`: a `.lua` file as a whole, of TypeScript the templates that
 * `defineScript` and `defineTaggedScript` make scripts of, without what is put into them.
 */
export function luaMutants(source: string, isLua: boolean): LuaMutant[] {
  const regions = isLua ? [[0, source.length] as const] : scriptsIn(source);
  return regions
    .flatMap(([from, to]) => [...tokenMutants(source, from, to), ...dropped(source, from, to)])
    .sort((a, b) => a.line - b.line);
}

function scriptsIn(source: string): (readonly [number, number])[] {
  return [...source.matchAll(/\b(define(?:Tagged)?Script\(`)([^`]*)`\)/g)].map((found) => {
    const [, before = "", lua = ""] = found;
    const from = found.index + before.length;
    return [from, from + lua.length] as const;
  });
}

function* tokenMutants(source: string, from: number, to: number): Generator<LuaMutant> {
  // A value put into a template is no Lua: blanks of its length keep the places.
  const lua = source.slice(from, to).replaceAll(/\$\{[^}]*\}/g, (put) => " ".repeat(put.length));
  let previous = "";
  for (const { 0: token, index } of lua.matchAll(TOKEN)) {
    if (token.startsWith("--")) continue;
    const isSign = token === "-" && !/[\w)\]]$/.test(previous);
    const swaps = isSign ? [""] : /^\d/.test(token) ? [otherNumber(token)] : SWAPS[token];
    for (const swap of swaps ?? []) yield changed(source, from + index, token, swap);
    previous = ["and", "or", "not", "return", "then"].includes(token) ? "" : token;
  }
}

/** One more of what counts things, twice as much of what measures: a limit of 5,001 for 5,000 is no claim. */
function otherNumber(text: string): string {
  const number = Number(text);
  return String(number < 100 ? number + 1 : 2 * number);
}

function* dropped(source: string, from: number, to: number): Generator<LuaMutant> {
  let at = from;
  for (const line of source.slice(from, to).split("\n")) {
    // `if … then STATEMENT end` on one line, or a statement that has a line of its own.
    const [, before = "", body = line] = /^(.* then )(.*?)(?: else .*)? end$/.exec(line) ?? [];
    const [, indent = "", statement] = STATEMENT.exec(body) ?? [];
    if (statement !== undefined && !/^(return|local)\b/.test(statement) && isWhole(statement)) {
      yield changed(source, at + before.length + indent.length, statement, "");
    }
    at += line.length + 1;
  }
}

/** A statement that goes on in the next line cannot be left out by itself. */
function isWhole(statement: string): boolean {
  const count = (bracket: string) => statement.split(bracket).length;
  if (/\b(function|then|do|repeat)\b/.test(statement)) return false;
  return count("(") === count(")") && count("{") === count("}");
}

function changed(source: string, at: number, before: string, after: string): LuaMutant {
  const text = source.slice(0, at) + after + source.slice(at + before.length);
  return { line: source.slice(0, at).split("\n").length, before, after, text };
}
