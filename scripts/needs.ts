import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** A program that the tests start for real, and the package that brings it. */
type Need = {
  readonly program: string;
  /** Other names of a program that does as well. */
  readonly or?: readonly string[];
  readonly debian: string;
  /** Undefined where Homebrew has none. */
  readonly brew?: string;
  /** Not for the suite as a whole: without it the tests that want it fail or are left out, saying so. */
  readonly ofFewTests?: true;
  /** For a library of another language: a command that fails where it is missing. */
  readonly probe?: readonly [string, ...string[]];
};

/** Browsers that run without a screen, the smallest first. */
export const BROWSERS = [
  "chromium-headless-shell",
  "chromium",
  "google-chrome",
  "chromium-browser",
];

/** The Python of the system: packages of Debian are for that one, whatever comes first on the PATH. */
export const PYTHON = "/usr/bin/python3";

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
  // The loops of docs/for-your-users.md are run in these.
  { program: "curl", debian: "curl", brew: "curl", ofFewTests: true },
  { program: "python3", debian: "python3", brew: "python", ofFewTests: true },
  // A reader of HTTP by others, which test/http1/h11.test.ts holds beside the parser.
  { program: "h11", probe: [PYTHON, "-c", "import h11"], debian: "python3-h11", ofFewTests: true },
  // These check examples/prometheus/ and examples/systemd/. Prometheus itself is in the same package.
  { program: "promtool", debian: "prometheus", brew: "prometheus", ofFewTests: true },
  { program: "systemd-analyze", debian: "systemd", ofFewTests: true },
  // Process 1 of the image.
  { program: "tini", debian: "tini", ofFewTests: true },
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
  const brew = formulasOf(missing).join(" ");
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
    const formulas = formulasOf(missing);
    if (formulas.length > 0) run("brew", ["install", ...formulas]);
  }
}

function formulasOf(missing: readonly Need[]): string[] {
  return [...new Set(missing.flatMap(({ brew }) => (brew === undefined ? [] : [brew])))];
}

/** Vitest calls this once, before any test: `npx vitest FILE` has the programs as well. */
export function setup(): void {
  const lacking = fulfilNeeds(thisMachine());
  if (lacking !== undefined) throw new Error(lacking);
}

function thisMachine(): Machine {
  return { has: isHere, run: runQuietly, root: process.getuid?.() === 0 };
}

/** Whether a program that the tests need, or a library of that name, is there. */
export function isHere(name: string): boolean {
  const [program, ...args] = NEEDS.find((need) => need.program === name)?.probe ?? [];
  return program === undefined ? isOnPath(name) : spawnSync(program, args).status === 0;
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
