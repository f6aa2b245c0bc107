import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import { API_ROUTES } from "../../../src/admin/api/routes.ts";
import { findPageFile } from "../../../src/admin/page-files.ts";
import { each } from "../../support/each.ts";
import { codeOf, longFunctions } from "../../support/source.ts";
import { openAdminHouse } from "../admin-house.ts";

const FOLDER = join(import.meta.dirname, "../../../src/admin/page");
const FILES = readdirSync(FOLDER, { recursive: true, encoding: "utf8" }).filter((name) =>
  name.includes("."),
);
const read = (name: string) => readFileSync(join(FOLDER, name), "utf8");
const MODULES = FILES.filter((name) => name.endsWith(".js"));

/** The files that a file names, as the browser would ask for them. */
function namedIn(name: string): string[] {
  const text = read(name);
  const imported = [...text.matchAll(/^(?:import .*|\} )from "(.*?)";$/gm)].map(
    ([, path = ""]) => path,
  );
  const linked = [...text.matchAll(/(?:href|src)="([^"#]+)"/g)].map(([, path = ""]) => path);
  const base = `http://localhost/page/${name}`;
  return [...imported.map((path) => new URL(path, base).pathname), ...linked];
}

describe("the files of the page", () => {
  it("are read once, whoever asks, and what is no path of the page is none of them", async () => {
    const elsewhere = findPageFile("/livez");
    assert.ok(!process.getActiveResourcesInfo().includes("FSReqPromise"), "nobody asked for them");
    assert.equal(await elsewhere, undefined);
    const [first, again] = await Promise.all([findPageFile("/"), findPageFile("/")]);
    assert.ok(first !== undefined && first === again && first === (await findPageFile("/")));
    for (const path of ["/page", "/page/", "/page/nothing.js", "/page/index.html", "/main.js"]) {
      assert.equal(await findPageFile(path), undefined, path);
    }
  });

  it("are served without a token, under a policy that allows this origin alone", async () => {
    await using house = await openAdminHouse();
    const paths = [
      "/",
      ...FILES.filter((name) => name !== "index.html").map((one) => `/page/${one}`),
    ];
    for (const path of [...paths, "/page/uplot.js", "/page/uplot.css"]) {
      const { status, fields, text } = await house.ask("GET", path, { token: "" });
      assert.equal(status, 200, path);
      assert.ok(text.length > 0);
      const policy = String(fields["content-security-policy"]);
      assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
      assert.match(policy, /frame-ancestors 'none'/);
      assert.match(policy, /form-action 'none'/);
      assert.doesNotMatch(policy, /unsafe|\*|https?:|data:/);
      assert.equal(fields["x-content-type-options"], "nosniff");
      assert.equal(fields["x-frame-options"], "DENY");
      assert.equal(fields["cache-control"], "no-store");
    }
    const types = ["/", "/page/main.js", "/page/parts.css", "/page/icon.svg"];
    const found = await Promise.all(types.map((path) => house.ask("GET", path)));
    assert.deepEqual(
      found.map(({ fields }) => fields["content-type"]),
      [
        ...["text/html; charset=utf-8", "text/javascript; charset=utf-8"],
        ...["text/css; charset=utf-8", "image/svg+xml"],
      ],
    );
    const rules = String(found[0]?.fields["content-security-policy"]).split("; ").sort();
    assert.deepEqual(rules, [
      ...["base-uri 'none'", "connect-src 'self'", "default-src 'none'", "form-action 'none'"],
      ...["frame-ancestors 'none'", "img-src 'self'", "require-trusted-types-for 'script'"],
      ...["script-src 'self'", "style-src 'self'"],
    ]);
  });

  it("have a dark scheme that differs by its colours alone", () => {
    const styles = FILES.filter((name) => name.endsWith(".css"))
      .map(read)
      .join("\n");
    const blocks = styles.split("@media (prefers-color-scheme: dark)").slice(1);
    assert.equal(blocks.length, styles.split("prefers-color-scheme").length - 1);
    for (const block of each(blocks)) {
      assert.match(block, /^ \{\s*:root \{(\s*--[a-z-]+: #[0-9a-f]{6};)+\s*\}\s*\}/);
    }
  });

  it("name no file that is not served, and none of elsewhere", async () => {
    await using house = await openAdminHouse();
    const named = FILES.flatMap((name) => {
      const paths = namedIn(name).filter((one) => !one.includes("w3.org"));
      return paths.map((path) => ({ name, path }));
    });
    for (const { name, path } of each(named)) {
      assert.match(path, /^\/page\/(?:parts\/|views\/)?[a-z.]+$/, name);
      assert.equal((await house.ask("GET", path)).status, 200, `${name}: ${path}`);
    }
    for (const name of FILES) {
      const elsewhere = /https?:\/\/(?!www\.w3\.org\/2000\/svg")/.exec(read(name));
      assert.equal(elsewhere, null, name);
    }
  });

  it("name no route that the API does not have", () => {
    const routes = new Set(API_ROUTES.map(({ method, template }) => `${method} ${template}`));
    const named = MODULES.flatMap((name) => {
      const found = read(name).matchAll(/"((?:GET|POST|PATCH|DELETE) \/api\/[^"]*)"/g);
      return [...found].map(([, route = ""]) => route);
    });
    assert.ok(named.length > 5);
    assert.deepEqual(
      named.filter((route) => !routes.has(route)),
      [],
    );
  });

  it("are the only files: no other is reached, by whatever path", async () => {
    await using house = await openAdminHouse();
    for (const path of [
      ...["/page", "/page/", "/page/index.html", "/page/page.ts", "/page/../page.ts"],
      ...["/page/..%2fpage.ts", "/page/%2e%2e/page.ts", "/page/__proto__", "/page//main.js"],
      ...["/page/main.js/", "/page/./main.js", "/index.html", "//", "/page/views", "/page/views/"],
    ]) {
      assert.equal((await house.ask("GET", path)).status, 404, path);
    }
    assert.equal((await house.ask("POST", "/page/main.js")).status, 405);
    assert.equal((await house.ask("HEAD", "/page/main.js")).text, "");
  });

  it("make no markup from texts, and keep the measures of the house", () => {
    for (const name of MODULES) {
      const code = codeOf(read(name));
      const unsafe = /\b(?:innerHTML|outerHTML|insertAdjacentHTML|eval|Function|document\.write)\b/;
      assert.equal(unsafe.exec(code)?.[0], undefined, name);
      assert.doesNotMatch(code, /\bexport default\b|\blocalStorage\b|\bconsole\b/, name);
      assert.ok(read(name).split("\n").length <= 300, `${name} is one subject`);
      assert.deepEqual(longFunctions(read(name), 60), [], name);
    }
    assert.doesNotMatch(read("index.html"), /\son\w+=|<style|\sstyle=|<script(?![^>]*\ssrc=)/);
  });
});
