import { readdir, readFile } from "node:fs/promises";
import { extname } from "node:path";
import type { AdminResponse } from "./http/response.ts";

/**
 * The page at / (docs/reference/admin.md#page): hand-written modules of the folder beside this file,
 * served as they are, and the library that draws. They hold no data, so they need no token.
 */
const FOLDER = new URL("./page/", import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Scripts, styles and requests of this origin alone; nothing inline, nothing framed, no forms. */
const POLICY = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"],
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  "require-trusted-types-for 'script'",
].join("; ");

/** Files of the library: the name under which each is served, and where it is. */
const LIBRARY: readonly (readonly [name: string, specifier: string])[] = [
  ["uplot.js", "uplot/dist/uPlot.esm.js"],
  ["uplot.css", "uplot/dist/uPlot.min.css"],
];

let files: Promise<ReadonlyMap<string, AdminResponse>> | undefined;

/** The answer for a path of the page, from memory; undefined where the page has no such file. */
export async function findPageFile(path: string): Promise<AdminResponse | undefined> {
  if (path !== "/" && !path.startsWith("/page/")) return undefined;
  files ??= readFiles();
  return (await files).get(path);
}

/** Read at the first request, once: a gateway whose page is never opened keeps none of it. */
async function readFiles(): Promise<ReadonlyMap<string, AdminResponse>> {
  const names = await readdir(FOLDER);
  const own = names.map((name) => [name, new URL(name, FOLDER)] as const);
  const library = LIBRARY.map(([name, specifier]) => {
    return [name, new URL(import.meta.resolve(specifier))] as const;
  });
  const answers = [...own, ...library].map(async ([name, url]) => {
    const type = TYPES[extname(name)] ?? "application/octet-stream";
    const body = await readFile(url, "utf8");
    const path = name === "index.html" ? "/" : `/page/${name}`;
    return [path, { status: 200, type, body, fields: [], policy: POLICY }] as const;
  });
  return new Map(await Promise.all(answers));
}
