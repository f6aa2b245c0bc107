import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { type Mutant, mutated } from "./mutants.ts";
import { type Range, type Sources, testsNear } from "./reach.ts";
import { hashOf, roomOf, type Verdict } from "./results.ts";
import type { Outcome, Runner, Trial } from "./trial.ts";

const LEARNT = "node_modules/.cache/mutation/reach.json";
/** A test file that takes longer is too dear for a mutant. */
const LEARN_MS_MAX = { node: 20_000, vitest: 40_000 } as const;
/** How far tests are looked for: until those that run the place take `spentMs` together without it. */
type Limits = { readonly spentMs: number; readonly lookedAt: number };
/** Tests of other rooms are for places that none of their own reaches. */
const NEAR: Limits = { spentMs: 8_000, lookedAt: 12 };
/** For mutants that the near ones did not notice, or do not reach. */
const FAR: Limits = { spentMs: 45_000, lookedAt: 40 };
/** Failures of tests that take longer are doubted, as is what is late: the machine may be busy. */
const SURE_MS = 3_000;
/** A mutant may take thrice what its test takes without it, and this. */
const LATE_MS = 8_000;

/** A test file as it was: undefined `ran` where it fails or is too dear. */
type Learnt = {
  readonly hash: string;
  readonly runner: Runner;
  readonly ms: number;
  readonly ran?: Readonly<Record<string, { readonly hash: string; readonly ranges: Range[] }>>;
};

type TestCost = { readonly test: string; readonly ms: number };

/** The part of a trial that tries need. */
export type TrialRuns = Pick<Trial, "changed" | "learn" | "run">;

/** Tries mutants with the tests that reach them, and remembers what it has learnt of the tests. */
export class Tries {
  readonly #trial: TrialRuns;
  readonly #sources: Sources;
  readonly #learntAt: string;
  readonly #learnt: Record<string, Learnt>;
  /** By file, the test that has noticed a mutant last: likely the one for the next. */
  readonly #lastBy = new Map<string, string>();

  readonly #limits: Limits;

  /**
   * `far` looks for more tests, also for those that failed when they were learnt; `relearn` forgets what was learnt
   * earlier of all. It is kept in `learntAt`.
   */
  constructor(
    trial: TrialRuns,
    sources: Sources,
    { far = false, relearn = false, learntAt = LEARNT } = {},
  ) {
    this.#trial = trial;
    this.#sources = sources;
    this.#limits = far ? FAR : NEAR;
    this.#learntAt = learntAt;
    const learnt = Object.entries(relearn ? {} : readLearnt(learntAt));
    this.#learnt = Object.fromEntries(learnt.filter(([, { ran }]) => !far || ran !== undefined));
  }

  /** Whether a test notices the mutant, and which one. */
  async judge(mutant: Mutant): Promise<{ verdict: Verdict; by?: string }> {
    const { file } = mutant;
    const tests = await this.#testsFor(mutant);
    if (tests.length === 0) return { verdict: "alive" };
    const text = mutated(this.#textOf(file), mutant);
    return this.#trial.changed(file, text, async () => {
      for (const test of tests) {
        const outcome = await this.#surely(test, file);
        if (outcome === "passed") continue;
        this.#lastBy.set(file, test);
        return { verdict: outcome === "late" ? "late" : "noticed", by: test };
      }
      return { verdict: "alive" };
    });
  }

  /**
   * Runs the test on the changed file. A doubtful answer counts only if the test gives it twice, and passes
   * without the change right after that: otherwise it may be the machine that is busy, and the test says nothing.
   */
  async #surely(test: string, file: string): Promise<Outcome> {
    const { runner = "vitest", ms = 0 } = this.#learnt[test] ?? {};
    const run = { test, runner, deadlineMs: 3 * ms + LATE_MS };
    const outcome = await this.#trial.run(run);
    const isDoubtful = outcome === "late" || (outcome === "failed" && ms > SURE_MS);
    if (!isDoubtful) return outcome;
    const patient = { ...run, deadlineMs: 2 * run.deadlineMs };
    const again = await this.#trial.run(patient);
    if (again === "passed") return again;
    const unchanged = this.#textOf(file);
    const control = await this.#trial.changed(file, unchanged, () => this.#trial.run(patient));
    return control === "passed" ? again : "passed";
  }

  /** The test files that run the place of the mutant: the last that noticed one, then the cheapest. */
  async #testsFor(mutant: Mutant): Promise<string[]> {
    const { file } = mutant;
    const near = testsNear(file, this.#sources);
    const own = near.filter((test) => roomOf(test) === roomOf(file));
    const isFar = this.#limits === FAR;
    let found = await this.#reaching(mutant, isFar ? near : own);
    if (!isFar && found.length === 0) {
      const others = near.filter((test) => !own.includes(test));
      found = await this.#reaching(mutant, others);
    }
    const last = this.#lastBy.get(file);
    const cost = ({ test, ms }: TestCost) => (test === last ? 0 : ms);
    return found.sort((one, other) => cost(one) - cost(other)).map(({ test }) => test);
  }

  /** Finds the tests that run the place, up to the limits. */
  async #reaching({ file, from, to }: Mutant, tests: readonly string[]): Promise<TestCost[]> {
    const { spentMs, lookedAt } = this.#limits;
    const found: TestCost[] = [];
    let leftMs = spentMs;
    for (const test of tests.slice(0, lookedAt)) {
      if (leftMs <= 0) break;
      const { ran, ms } = await this.#learn(test);
      const place = ran?.[file];
      if (place === undefined) continue;
      const isAsLearnt = place.hash === hashOf(this.#textOf(file));
      if (isAsLearnt && !overlaps(place.ranges, [from, to])) continue;
      found.push({ test, ms });
      leftMs -= ms;
    }
    return found;
  }

  async #learn(test: string): Promise<Learnt> {
    const hash = hashOf(this.#textOf(test));
    const known = this.#learnt[test];
    if (known?.hash === hash) return known;
    const learnt = (await this.#ran(test, "node")) ?? (await this.#ran(test, "vitest"));
    this.#learnt[test] = learnt ?? { hash, runner: "vitest", ms: 0 };
    mkdirSync(dirname(this.#learntAt), { recursive: true });
    writeFileSync(this.#learntAt, JSON.stringify(this.#learnt));
    return this.#learnt[test];
  }

  async #ran(test: string, runner: Runner): Promise<Learnt | undefined> {
    const startMs = performance.now();
    const ran = await this.#trial.learn({ test, runner, deadlineMs: LEARN_MS_MAX[runner] });
    const ms = Math.round(performance.now() - startMs);
    return ran && { hash: hashOf(this.#textOf(test)), runner, ms, ran: this.#hashed(ran) };
  }

  #hashed(ran: ReadonlyMap<string, Range[]>) {
    const rows = [...ran].map(([file, ranges]) => {
      return [file, { hash: hashOf(this.#textOf(file)), ranges }] as const;
    });
    return Object.fromEntries(rows);
  }

  #textOf(path: string): string {
    return this.#sources.get(path) ?? "";
  }
}

function overlaps(ranges: readonly Range[], [from, to]: Range): boolean {
  return ranges.some(([start, end]) => start < to && end > from);
}

function readLearnt(path: string): Record<string, Learnt> {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Record<string, Learnt>;
  } catch {
    return {};
  }
}
