import assert from "node:assert/strict";
import { mkdtempDisposable, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "vitest";
import { DAY_MS } from "../../../../src/core/quota/days.ts";
import { DayCounts } from "../../../../src/stores/quotas/memory/day-counts.ts";
import { DayFiles } from "../../../../src/stores/quotas/memory/day-files.ts";
import { encodeState, type SavedAccount } from "../../../../src/stores/quotas/memory/state-file.ts";
import { unsavedUnits } from "../../../../src/stores/quotas/memory/unsaved-units.ts";

const NOW = 20_000 * DAY_MS;

/** An account with the counts of its windows, by the counter: the start and the count. */
function account(name: string, counts: Readonly<Record<string, readonly [number, number]>>) {
  const usage = Object.fromEntries(
    Object.entries(counts).map(([counter, [startMs, count]]) => {
      return [counter, { startMs, count, refusedMs: 0 }];
    }),
  );
  const state = { usage, strikesMs: [], ban: undefined };
  return { environment: "production", account: name, state } satisfies SavedAccount;
}

it("the units that a file lacks are those of the window that lacks most or of all days, and of the window of each meter that lacks most", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "unsaved-"));
  const stateFile = join(folder.path, "state.json");
  const before = [
    account("acme", {
      ...{ minute: [0, 9], day: [0, 10], "1z.day": [0, 1] },
      ...{ "#tokens.minute": [0, 90], "#tokens.day": [0, 100], "#tokens.hour": [0, 100] },
    }),
    account("even", { day: [0, 7] }),
    account("reset", { day: [0, 7] }),
    account("begun", { minute: [0, 9] }),
    account("days", { minute: [0, 1] }),
  ];
  await writeFile(stateFile, [...encodeState(before)].join(""));
  const now = [
    account("acme", {
      ...{ minute: [60, 2], day: [0, 13], "1z.day": [0, 99] },
      ...{ "#tokens.minute": [60, 20], "#tokens.day": [0, 150], "#tokens.hour": [0, 130] },
    }),
    account("even", { day: [0, 7] }),
    account("reset", { day: [0, 0] }),
    account("begun", { minute: [60, 4] }),
    account("days", { minute: [60, 1] }),
    account("new", { minute: [60, 4] }),
  ];
  const days = new DayCounts(new DayFiles(stateFile), DAY_MS);
  const admit = (name: string, units: number, atMs = NOW) =>
    days.admit({ environment: "production", account: name }, atMs, 1, units);
  admit("days", 1);
  await days.save(NOW);
  admit("days", 6);
  admit("days", 2, NOW + DAY_MS);

  const unsaved = async () => {
    const charges = await unsavedUnits({ stateFile, accounts: now, days });
    return charges.map(({ accountRef, units, meters }) => [accountRef.account, units, meters]);
  };
  assert.deepEqual(await unsaved(), [
    ["acme", 3, [{ name: "tokens", units: 50 }]],
    ["even", 0, []],
    ["reset", 0, []],
    ["begun", 4, []],
    ["days", 8, []],
    ["new", 4, []],
  ]);

  await rm(folder.path, { recursive: true });
  await writeFile(folder.path, "");
  assert.deepEqual(await unsaved(), [], "files that cannot be read say nothing");
});
