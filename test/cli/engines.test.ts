import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import { satisfiesEngines } from "../../src/cli/node-version.ts";
import { startNode } from "../support/gateway/processes.ts";
import { ENGINE_VERSIONS, oldestNode } from "../support/node-versions.ts";
import { claimsRunsOn } from "./engines-kit.ts";

const ROOT = join(import.meta.dirname, "../..");
const RANGE = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).engines.node;

describe("the range of Node in package.json", () => {
  const FITS = ["v22.23.2", "v22.99.0", "v24.18.1", "v24.20.0", "v26.5.1", "v26.10.0", "v27.0.0"];
  const DOES_NOT = ["v20.19.0", "v22.23.1", "v23.0.0", "v24.18.0", "v25.9.0", "v26.5.0"];
  it("holds both sides of every edge", () => {
    assert.deepEqual(
      FITS.filter((version) => !satisfiesEngines(version, RANGE)),
      [],
    );
    assert.deepEqual(
      DOES_NOT.filter((version) => satisfiesEngines(version, RANGE)),
      [],
    );
  });

  it("takes partial versions and pre-releases by their numbers, and refuses what it cannot read", () => {
    assert.equal(satisfiesEngines("v23.0.0-nightly1", ">=22.1 <23"), false);
    assert.equal(satisfiesEngines("v22.1.0", ">=22.1 <23"), true);
    assert.throws(() => satisfiesEngines("v22.1.0", "^22"), /Cannot read \^22/);
  });
});

describe("the Nodes that tests run on", () => {
  it("are both ends of each line in package.json", () => {
    assert.deepEqual(
      ENGINE_VERSIONS.filter((version) => !satisfiesEngines(`v${version}`, RANGE)),
      [],
    );
    const lines = RANGE.split("||").length;
    assert.equal(new Set(ENGINE_VERSIONS.map((version) => version.split(".")[0])).size, lines);
    assert.ok(ENGINE_VERSIONS.length > lines, String(ENGINE_VERSIONS));
  });
});

describe("started on another Node", () => {
  it("says one line and ends with 78, whatever was asked for", async () => {
    const forged = `Object.defineProperty(process, "version", { value: "v25.1.0" })`;
    const url = `data:text/javascript,${encodeURIComponent(forged)}`;
    const running = startNode(["--import", url, join(ROOT, "src/main.ts"), "--version"]);
    const { code, stdout, stderr } = await running.exited;
    assert.equal(code, 78);
    assert.equal(stdout, "");
    assert.equal(stderr, `Tollgate needs Node ${RANGE}: this is v25.1.0\n`);
  });
});

const nodes = await oldestNode();

describe("on the oldest Node", () => claimsRunsOn(nodes));
