import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "vitest";

const read = <T>(path: string): T => {
  return JSON.parse(readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")) as T;
};

type Locked = {
  version?: string;
  integrity?: string;
  hasInstallScript?: boolean;
  link?: boolean;
  optional?: boolean;
};
const { packages } = read<{ packages: Record<string, Locked> }>("package-lock.json");
const installed = Object.entries(packages).filter(([path]) => path !== "");

test("every package of every platform is locked to one version and to its bytes", () => {
  assert.ok(installed.length > 50);
  for (const [path, { version, integrity }] of installed) {
    assert.match(version ?? "", /^\d+\.\d+\.\d+/, path);
    assert.match(integrity ?? "", /^sha512-[A-Za-z0-9+/]{86}==$/, path);
  }
});

test("no package runs a script of its own when it is installed, but for the one that is allowed to", () => {
  const { allowScripts } = read<{ allowScripts: Record<string, boolean> }>("package.json");
  const judged = Object.keys(allowScripts);
  assert.deepEqual(
    judged.filter((name) => allowScripts[name]),
    ["node"],
  );
  const scripted = installed.filter(
    ([, { hasInstallScript, optional }]) => hasInstallScript && !optional,
  );
  assert.deepEqual(
    scripted
      .map(([path]) => path.replace(/^.*node_modules\//, ""))
      .filter((name) => !judged.includes(name)),
    [],
  );
});

test("what faces the network is newer than its known holes", () => {
  const atLeast: Readonly<Record<string, readonly number[]>> = {
    undici: [7, 29, 0],
    ws: [8, 17, 1],
    ioredis: [6, 0, 0],
    "http-proxy-3": [1, 23, 3],
  };
  for (const [name, wanted] of Object.entries(atLeast)) {
    const copies = installed.filter(([path]) => path.endsWith(`node_modules/${name}`));
    assert.ok(copies.length > 0, name);
    for (const [path, { version = "" }] of copies) {
      const found = version.split(".").map(Number);
      const differs = wanted.findIndex((part, i) => part !== found[i]);
      assert.ok(
        differs === -1 || (found[differs] ?? 0) > (wanted[differs] ?? 0),
        `${path} ${version}`,
      );
    }
  }
});
