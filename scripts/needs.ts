import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** A program that the tests start for real, and the package that brings it. */
type Need = {
  readonly program: string;
  /** Other names of a program that does as well. */
  readonly or?: readonly string[];
  readonly debian: string;
  readonly brew: string;
  /** Not for the suite as a whole: without it the tests that want it fail, saying so. */
  readonly ofFewTests?: true;
};

/** Browsers that run without a screen, the smallest first. */
export const BROWSERS = [
  "chromium-headless-shell",
  "chromium",
  "google-chrome",
  "chromium-browser",
];

const NEEDS: readonly Need[] = [
  { program: "redis-server", debian: "redis-server", brew: "redis" },
  { program: "redis-cli", debian: "redis-tools", brew: "redis" },
  { program: "openssl", debian: "openssl", brew: "openssl" },
  {
    program: "chromium-headless-shell",
    or: BROWSERS,
    debian: "chromium-headless-shell",
    brew: "chromium",
    ofFewTests: true,
  },
  // The proxies of examples/, which stand in front of a gateway in test/examples/.
  { program: "nginx", debian: "nginx", brew: "nginx", ofFewTests: true },
  { program: "haproxy", debian: "haproxy", brew: "haproxy", ofFewTests: true },
  { program: "caddy", debian: "caddy", brew: "caddy", ofFewTests: true },
  // A router that test/attacks/real-routers.ts holds beside the gateway.
  { program: "go", debian: "golang-go", brew: "go", ofFewTests: true },
];

/** Runs one command; true when it ended well. */
type Runner = (command: string, args: readonly string[]) => boolean;

type Machine = {
  readonly has: (program: string) => boolean;
  readonly run: Runner;
  readonly root: boolean;
};

/**
 * Sees that every program is there, and installs the packages of those that are not: apt as root or
 * with `sudo -n`, Homebrew elsewhere. Gives undefined when all is there, else one line for people.
 */
export function fulfilNeeds(machine: Machine): string | undefined {
  const isMissing = ({ program, or = [] }: Need) => ![program, ...or].some(machine.has);
  const before = NEEDS.filter(isMissing);
  // By themselves: a package that a system does not have must not keep the others out.
  for (const group of [before.filter(isForAll), before.filter((need) => !isForAll(need))]) {
    if (group.length > 0) install(machine, group);
  }
  const missing = NEEDS.filter((need) => isForAll(need) && isMissing(need));
  if (missing.length === 0) return undefined;

  const programs = missing.map(({ program }) => program).join(", ");
  const debian = [...new Set(missing.map((need) => need.debian))].join(" ");
  const brew = [...new Set(missing.map((need) => need.brew))].join(" ");
  return (
    `The tests need ${programs}, and installing failed: ` +
    `run "apt-get install ${debian}" (Debian) or "brew install ${brew}" (macOS), then again.`
  );
}

function isForAll({ ofFewTests }: Need): boolean {
  return ofFewTests !== true;
}

function install({ has, run, root }: Machine, missing: readonly Need[]): void {
  if (has("apt-get")) {
    const packages = [...new Set(missing.map(({ debian }) => debian))];
    const apt = (...args: string[]) => {
      return root ? run("apt-get", args) : run("sudo", ["-n", "apt-get", ...args]);
    };
    const wanted = ["install", "-y", "--no-install-recommends", ...packages];
    // A bare machine has no package lists yet, and old ones name files that are gone.
    if (!apt(...wanted) && apt("update")) apt(...wanted);
  } else if (has("brew")) {
    run("brew", ["install", ...new Set(missing.map(({ brew }) => brew))]);
  }
}

/** Vitest calls this once, before any test: `npx vitest FILE` has the programs as well. */
export function setup(): void {
  const lacking = fulfilNeeds(thisMachine());
  if (lacking !== undefined) throw new Error(lacking);
}

function thisMachine(): Machine {
  return { has: isOnPath, run: runQuietly, root: process.getuid?.() === 0 };
}

/** Whether a program of this name can be started. */
export function isOnPath(program: string): boolean {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** RUNLEVEL=1 keeps Debian's package from starting a Redis of its own on port 6379. */
function runQuietly(command: string, args: readonly string[]): boolean {
  process.stderr.write(`installing: ${command} ${args.join(" ")}\n`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
  const { status, stderr } = spawnSync(command, args, {
    env,
    encoding: "utf8",
    stdio: ["ignore", "ignore", "pipe"],
    timeout: 300_000,
  });
  if (status !== 0) process.stderr.write(stderr ?? "");
  return status === 0;
}
