import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "vitest";
import { fulfilNeeds, isHere, PYTHON } from "../../scripts/needs.ts";

const ESSENTIAL = ["redis-server", "redis-cli", "openssl"];
const BROWSER = "chromium-headless-shell";
/** Programs without which a few tests leave themselves out or fail: the suite goes on. */
const PLAIN = ["nginx", "haproxy", "caddy"];
const OF_FEW = [
  ...[BROWSER, ...PLAIN, "go", "curl", "python3", "h11", "promtool", "systemd-analyze", "tini"],
];

/** A machine in memory: installing for real would change the one that the tests run on. */
function machine(programs: readonly string[], { root = true, works = true, stale = false } = {}) {
  const there = new Set(programs);
  const ran: string[] = [];
  let fresh = !stale;
  const run = (command: string, args: readonly string[]) => {
    ran.push([command, ...args].join(" "));
    if (args.includes("update")) fresh = true;
    if (!works || !fresh) return false;
    if (args.includes("install")) {
      for (const program of args.includes(BROWSER) ? OF_FEW : ESSENTIAL) there.add(program);
    }
    return true;
  };
  return { ran, has: (program: string) => there.has(program), run, root };
}

const INSTALL = "apt-get install -y --no-install-recommends redis-server redis-tools openssl";
const INSTALL_FEW = `apt-get install -y --no-install-recommends ${BROWSER} nginx haproxy caddy golang-go curl python3 python3-h11 prometheus systemd tini`;

describe("the programs that the tests need", () => {
  it("are left alone where they are there", () => {
    const { ran, ...rest } = machine([...ESSENTIAL, ...OF_FEW, "apt-get"]);
    assert.equal(fulfilNeeds(rest), undefined);
    assert.deepEqual(ran, []);
    const other = machine([...ESSENTIAL, ...OF_FEW.slice(1), "google-chrome", "apt-get"]);
    assert.equal(fulfilNeeds(other), undefined);
    assert.deepEqual(other.ran, [], "another browser does as well");
  });

  it("are installed by root, and only those that are missing", () => {
    const { ran, ...rest } = machine(["apt-get", "openssl"]);
    assert.equal(fulfilNeeds(rest), undefined);
    assert.deepEqual(ran, [INSTALL.replace(" openssl", ""), INSTALL_FEW]);
  });

  it("are installed through sudo by anyone else, once the package lists are fresh", () => {
    const { ran, ...rest } = machine(["apt-get"], { root: false, stale: true });
    assert.equal(fulfilNeeds(rest), undefined);
    assert.deepEqual(ran, [
      ...[`sudo -n ${INSTALL}`, "sudo -n apt-get update", `sudo -n ${INSTALL}`],
      `sudo -n ${INSTALL_FEW}`,
    ]);
  });

  it("come from Homebrew where there is no apt", () => {
    const { ran, ...rest } = machine(["brew"]);
    assert.equal(fulfilNeeds(rest), undefined);
    assert.deepEqual(ran, [
      "brew install redis openssl",
      "brew install chromium nginx haproxy caddy go curl python prometheus",
    ]);
  });

  it("do not hold up the suite where only programs of a few tests cannot be had: those say so", () => {
    const { ran, ...rest } = machine([...ESSENTIAL, "apt-get"], { works: false });
    assert.equal(fulfilNeeds(rest), undefined);
    assert.deepEqual(ran, [INSTALL_FEW, "apt-get update"]);
  });

  it("are looked for on the PATH, and a library of Python by the Python of the system", () => {
    assert.equal(isHere("node"), true);
    assert.equal(isHere("no-such-program"), false);
    const { status } = spawnSync(PYTHON, ["-c", "import h11"]);
    assert.equal(isHere("h11"), status === 0);
  });

  it("are named in one line, with what to do, where nothing helps", () => {
    for (const rest of [machine([]), machine(["apt-get", "openssl"], { works: false })]) {
      const says = fulfilNeeds(rest) ?? "";
      assert.match(says, /redis-server, redis-cli.*apt-get install redis-server redis-tools.*brew/);
      assert.doesNotMatch(says, /\n/);
    }
  });
});
