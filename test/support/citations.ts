/** Reads citations: places in code and pages that name a page of this repository, and its anchor. */

/** `docs/reference/http.md#charging`, wherever it stands in a text. */
const CITED = /(?<![\w./-])((?:docs|config)\/[\w./-]+\.(?:md|yaml))(?:#([\w-]+))?/g;
/** `[text](page.md#anchor)` and `[text](#anchor)`, but no address of elsewhere. */
const LINKED = /\]\((?![a-z]+:)([^)#\s]*)(?:#([\w-]+))?\)/g;

/** `decide.ts`, `core/quota/decide.ts`, `lua/decide.lua`: a source file that a comment or a page names. */
const NAMED = /(?<![\w./*-])((?:[\w-]+\/)*[\w-]+(?:\.[\w-]+)*\.(?:ts|mjs|lua))\b/g;

/** The source files that a text names, by the whole path or its end. */
export function filesNamedIn(text: string): string[] {
  return [...text.matchAll(NAMED)].map(([, path = ""]) => path);
}

export type Citation = { readonly page: string; readonly anchor: string | undefined };

/** The pages that code cites, by path from the root. */
export function citationsIn(text: string): Citation[] {
  return [...text.matchAll(CITED)].map(([, page = "", anchor]) => ({ page, anchor }));
}

/**
 * The links of a page at `path`, by path from the root; a link that leaves the root is kept as it
 * is.
 */
export function linksIn(path: string, text: string): Citation[] {
  return [...withoutCode(text).matchAll(LINKED)].map(([, target = "", anchor]) => {
    const page = target === "" ? path : new URL(target, `file:///${path}`).pathname.slice(1);
    return { page, anchor };
  });
}

/** Anchors of a page: explicit ones, and those that GitHub makes from headings. */
export function anchorsIn(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, id = ""] of text.matchAll(/<a id="([\w-]+)"><\/a>/g)) anchors.add(id);
  for (const [, heading = ""] of withoutCode(text).matchAll(/^#{1,6} (.+)$/gm)) {
    const slug = slugOf(heading);
    let free = slug;
    for (let again = 1; anchors.has(free); again++) free = `${slug}-${again}`;
    anchors.add(free);
  }
  return anchors;
}

/** Lower case, without punctuation, blanks as dashes; links count by their text. */
export function slugOf(heading: string): string {
  return heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, "")
    .trim()
    .replaceAll(/\s/g, "-");
}

function withoutCode(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```/gm, "");
}
