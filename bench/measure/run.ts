import { availableParallelism, cpus, release, type } from "node:os";
import type { Machine, PARTS, Report, RunOptions } from "../report/report.ts";
import { targetsOf } from "../report/targets.ts";
import { machineTicks, othersShare } from "../stage/cpu.ts";
import { openStage, type Stage } from "../stage/stage.ts";
import { compareVariants } from "./compare.ts";
import { measureGrowth } from "./growth.ts";
import { measureLine } from "./line.ts";
import { measureRefusals } from "./refusals.ts";

/** The whole benchmark; `say` is told how far it is. */
export async function runBenchmark(
  options: RunOptions,
  say: (text: string) => void,
): Promise<Report> {
  const before = machineTicks();
  const broken: { title: string; why: string }[] = [];
  const doing = async <T>(
    part: (typeof PARTS)[number],
    work: (stage: Stage) => Promise<T>,
    none: T,
  ) => {
    if (!options.parts.includes(part)) return none;
    try {
      await using stage = await openStage();
      return await work(stage);
    } catch (error) {
      // An hour of measuring is not lost for what fails last.
      broken.push({ title: `all of ${part}`, why: String(error) });
      return none;
    }
  };
  const line = await doing("line", (stage) => measureLine(stage, options), undefined);
  const compared = await doing("variants", (stage) => compareVariants(stage, options, say), {
    rows: [],
    noise: {},
    leftOut: [],
  });
  const refusals = await doing("refusals", (stage) => measureRefusals(stage, options, say), []);
  const growth = await doing("growth", (stage) => measureGrowth(stage, options, say), []);
  const { rows: variants, noise } = compared;
  const leftOut = [...compared.leftOut, ...broken];
  const measured = { variants, refusals, growth, line };
  const madeAt = new Date().toISOString();
  const machine = thisMachine(othersShare(before, machineTicks()));
  return { madeAt, machine, options, noise, leftOut, ...measured, targets: targetsOf(measured) };
}

function thisMachine(share: number): Machine {
  return {
    processor: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    system: `${type()} ${release()}`,
    node: process.version,
    othersShare: share,
  };
}
