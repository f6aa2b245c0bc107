import type { SideFound } from "../measure/beside.ts";
import type { Slice } from "../measure/slice.ts";
import { median, noiseOf, ratioInterval } from "../measure/statistics.ts";

const FIGURES = [
  ["gatewayUs", "gateway µs"],
  ["sumUs", "gateway + store µs"],
  ["p50Ms", "p50 ms"],
  ["p99Ms", "p99 ms"],
] as const satisfies readonly (readonly [keyof Slice, string])[];

/** A line for each figure and side: its median, the noise, and the first side as a multiple of it. */
export function besideText([first, ...others]: readonly SideFound[]): string {
  const lines = FIGURES.flatMap(([figure, title]) => {
    const of = (side: SideFound | undefined) => (side?.copies ?? []).map((each) => each[figure]);
    const told = (side: SideFound | undefined) => {
      const noise = Math.round(noiseOf([of(side)]) * 100);
      return `${side?.name} ${median(of(side)).toFixed(2)} (copies ${noise} % apart)`;
    };
    const own = of(first);
    return others.map((side) => {
      const { ratio, low, high } = ratioInterval(own, of(side));
      const share = `${ratio.toFixed(3)} × (95 %: ${low.toFixed(3)} to ${high.toFixed(3)})`;
      return `${title}: ${told(first)} = ${share} ${told(side)}`;
    });
  });
  return `${lines.join("\n")}\n`;
}
