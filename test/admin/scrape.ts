import assert from "node:assert/strict";
import { each } from "../support/each.ts";
import { eventually } from "../support/poll.ts";

/** The samples of a scrape, by name and labels. */
export async function scrape({
  render,
}: {
  render(): Promise<string>;
}): Promise<Map<string, number>> {
  return new Map(samplesOf(await render()));
}

/** Asks for /metrics until they were rendered after the call: the first answer may be a second old. */
export async function freshMetrics(adminUrl: string): Promise<Map<string, number>> {
  const ask = async () => (await fetch(`${adminUrl}/metrics`)).text();
  const first = await ask();
  const text = await eventually(
    async () => {
      const next = await ask();
      return next !== first && next;
    },
    { everyMs: 50 },
  );
  return new Map(samplesOf(text as string));
}

/** Every sample of a text in the format 0.0.4, in order. */
export function samplesOf(text: string): [name: string, value: number][] {
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const at = line.lastIndexOf(" ");
      return [line.slice(0, at), Number(line.slice(at + 1).replace("+Inf", "Infinity"))];
    });
}

/** The text format 0.0.4 and what `promtool check metrics` asks for, read line by line. */
export function assertConventions(text: string): void {
  const types = new Map<string, string>();
  const helped = new Set<string>();
  for (const line of each(text.split("\n").filter((one) => one !== ""))) {
    const [, kind, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === "HELP") {
      assert.ok(!helped.has(name), `${name} is described once`);
      helped.add(name);
    } else if (kind === "TYPE") {
      assert.ok(helped.has(name), `${name} has HELP`);
      assert.equal(rest === "counter", name.endsWith("_total"), `${name}: _total is for counters`);
      assert.doesNotMatch(name, /_(ms|milliseconds|minutes|kib|mib)(_|$)/);
      types.set(name, rest);
    } else {
      const sample = /^([a-z_][a-z0-9_]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*\})? (\S+)$/.exec(
        line,
      );
      assert.ok(sample, `a sample: ${line}`);
      const base = (sample[1] ?? "").replace(/_(bucket|sum|count)$/, "");
      assert.ok(types.has(sample[1] ?? "") || types.get(base) === "histogram", `typed: ${line}`);
      assert.match(sample[3] ?? "", /^(-?\d+(\.\d+)?(e[+-]?\d+)?|NaN|[+-]Inf)$/);
    }
  }
}
