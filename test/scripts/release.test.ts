import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "vitest";
import {
  type Facts,
  judge,
  type Lock,
  type Sbom,
  sbomOfInstalled,
} from "../../scripts/release/judge.ts";

const lock: Lock = {
  version: "1.2.3",
  packages: {
    "": {},
    "node_modules/a": { version: "1.0.0", integrity: "sha512-a" },
    "node_modules/a/node_modules/@of/b": { version: "2.0.0", integrity: "sha512-b" },
    "node_modules/tool": { version: "3.0.0", integrity: "sha512-t", dev: true },
    "node_modules/foreign": { version: "3.0.0", dev: true, optional: true },
  },
};
const component = (name: string, version: string) => {
  return { "bom-ref": `${name}@${version}`, name, version, hashes: [{}] };
};
const whole: Sbom = {
  metadata: { component: { "bom-ref": "folder@1.2.3", name: "folder" } },
  components: [component("a", "1.0.0"), component("@of/b", "2.0.0"), component("tool", "3.0.0")],
  dependencies: [
    { ref: "folder@1.2.3", dependsOn: ["a@1.0.0", "tool@3.0.0"] },
    { ref: "a@1.0.0", dependsOn: ["@of/b@2.0.0"] },
    { ref: "tool@3.0.0", dependsOn: ["a@1.0.0"] },
  ],
};
const digest = "0".repeat(64);
/** A release of which every condition holds. */
const facts: Facts = {
  version: "1.2.3",
  changed: [],
  tags: ["v1.2.2"],
  changelog: "# Changelog\n\n## 1.2.3 (2026-11-21)\n\n## 1.2.2 (2026-11-01)\n",
  lock,
  node: {
    version: "26.0.0",
    platform: "linux-x64",
    sha256: digest,
    pinned: { version: "26.0.0", sha256: { "linux-x64": digest } },
  },
  baseImage: `node:26-slim@sha256:${digest}`,
  sbom: sbomOfInstalled(whole, "tollgate", lock),
  tests: 0,
};

const refused = (more: Partial<Facts>) => {
  return judge({ ...facts, ...more }).flatMap(({ name, ok, why }) =>
    ok ? [] : [`${name}: ${why}`],
  );
};

describe("a release", () => {
  it("may be made when everything holds, without an image too", () => {
    assert.deepEqual(refused({}), []);
    assert.deepEqual(refused({ baseImage: undefined }), []);
  });

  it("is refused for each thing that does not hold, in words that say what to do", () => {
    const { packages } = lock;
    const pinned = { version: "26.0.0", sha256: { "linux-x64": "1".repeat(64) } };
    const cases: readonly (readonly [Partial<Facts>, RegExp])[] = [
      [{ changed: [" M a.ts"] }, /the tree is clean: +M a\.ts/],
      [{ changed: undefined }, /no git clone/],
      [{ version: "next" }, /no version such as 1\.2\.3/],
      [{ tags: ["v1.2.3"] }, /there is a tag v1\.2\.3 already/],
      [{ lock: { ...lock, version: "1.2.2" } }, /package-lock\.json 1\.2\.2: set both/],
      [{ changelog: "## Unreleased\n## 1.2.3 (2026-11-21)" }, /write "## 1\.2\.3 \(YYYY-MM-DD\)"/],
      [{ changelog: "## 1.2.3" }, /write "## 1\.2\.3/],
      [{ changelog: "## 1x2.3 (2026-11-21)" }, /write "## 1\.2\.3/],
      [
        { lock: { ...lock, packages: { ...packages, "node_modules/t": { dev: true } } } },
        /node_modules\/t$/,
      ],
      [{ lock: { ...lock, packages: {} } }, /pins every package/],
      [{ node: { ...facts.node, version: "26.0.1" } }, /this is Node 26\.0\.1, .* pins 26\.0\.0/],
      [{ node: { ...facts.node, platform: "sunos-sparc" } }, /no digest for sunos-sparc/],
      [{ node: { ...facts.node, pinned } }, /pinned is sha256:1+$/],
      [
        { sbom: { ...facts.sbom, components: [component("a", "1.0.0")] } },
        /@of\/b@2\.0\.0 is missing/,
      ],
      [{ baseImage: "node:26-slim" }, /node:26-slim has no @sha256/],
      [{ tests: 1 }, /npm run ok and npm run test:release pass: exit status 1/],
      [{ tests: undefined }, /--tests/],
    ];
    for (const [more, why] of cases) assert.match(refused(more).join("\n"), why);
  });

  it("has in its bill of materials what is installed with it, and nothing of the tools", () => {
    const { metadata, components, dependencies } = facts.sbom;
    assert.deepEqual(metadata.component, { "bom-ref": "folder@1.2.3", name: "tollgate" });
    assert.deepEqual(
      components.map(({ name }) => name),
      ["a", "@of/b"],
    );
    assert.deepEqual(dependencies, [
      { ref: "folder@1.2.3", dependsOn: ["a@1.0.0"] },
      { ref: "a@1.0.0", dependsOn: ["@of/b@2.0.0"] },
    ]);
  });

  it("that cannot be made is refused with 1 before anything is built", () => {
    // No base has such a digest: this is refused in any state of the tree.
    const args = ["scripts/release.ts", "--publish", "--base-image", "node:latest"];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    assert.deepEqual([status, stdout], [1, ""]);
    assert.match(stderr, /^NO {2}the image stands on .*node:latest has no @sha256/m);
    assert.match(stderr, /^Refused: nothing is published\.$/m);
  });
});
