import assert from "node:assert/strict";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { runVerb } from "../kit.ts";

it("a key that a gateway cannot revoke as it cannot write its file is told to work still, with why and what refuses it", async () => {
  await using house = await startTestGateway();
  const { id } = await house.issue();
  // A folder in the place of the temporary file is refused even for root.
  const temporary = join(house.directory, "keys.json.tmp");
  await mkdir(temporary);
  const revoke = ["keys", "revoke", id, "--admin", house.adminUrl];
  const { status, out, err } = await runVerb(revoke);
  assert.deepEqual([status, out], [1, ""]);
  assert.match(
    err,
    /^Cannot write the keys file \S+keys\.json: .*\(EISDIR\): nothing was changed\nThe key still works: `bans add ID --for 1d` refuses its account meanwhile\n$/,
  );
  await rm(temporary, { recursive: true });
  assert.equal((await runVerb(revoke)).out, `Key ${id} is revoked\n`);
});
