import assert from "node:assert/strict";
import { it } from "vitest";
import { configurationPage } from "../../scripts/pages/configuration.ts";

it("each map of the configuration page that is to be seen below has a section there", () => {
  const lines = configurationPage().split("\n");
  const titles = lines.flatMap((line) => /^## (.+)/.exec(line)?.[1] ?? []);
  let section = "";
  let count = 0;
  for (const line of lines) {
    section = /^## (.+)/.exec(line)?.[1] ?? section;
    const key = /^\| `(\w+)` \| [^|]*a map, see below \|/.exec(line)?.[1];
    if (key === undefined) continue;
    count += 1;
    const wanted = `${section}.${key}`;
    assert.ok(
      titles.some((title) => title.replace(/(\[\])?(\.NAME)?$/, "") === wanted),
      wanted,
    );
  }
  assert.ok(count > 5);
});
