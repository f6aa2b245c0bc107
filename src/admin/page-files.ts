import { readdir, readFile } from "node:fs/promises";
import { extname } from "node:path";
import type { AdminResponse } from "./http/response.ts";

/**
 * The page at / (docs/reference/admin.md#page): hand-written modules of the folder `page`, served
 * unchanged, and the library that draws plots. They hold no data, so they need no token.
 */
const FOLDER = new URL("./page/", import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Allows scripts, styles and requests of this origin only; no inline code, no frames, no forms. */
const POLICY = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"],
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  "require-trusted-types-for 'script'",
].join("; ");

/** Files of the library: the name of each on the page, and its module specifier. */
const LIBRARY: readonly (readonly [name: string, specifier: string])[] = [
  ["uplot.js", "uplot/dist/uPlot.esm.js"],
  ["uplot.css", "uplot/dist/uPlot.min.css"],
];

let files: Promise<ReadonlyMap<string, AdminResponse>> | undefined;

/** The response for a path of the page, from memory; undefined if the page has no such file. */
export async function findPageFile(path: string): Promise<AdminResponse | undefined> {
  if (path !== "/" && !path.startsWith("/page/")) return undefined;
  files ??= readFiles();
  return (await files).get(path);
}

/** Reads the files at the first request, because many a gateway's page is never opened. */
async function readFiles(): Promise<ReadonlyMap<string, AdminResponse>> {
  const names = await readdir(FOLDER, { recursive: true });
  const own = names
    .filter((name) => extname(name) !== "")
    .map((name) => [name, new URL(name, FOLDER)] as const);
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
