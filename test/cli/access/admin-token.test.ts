import assert from "node:assert/strict";
import { it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { openFolder, runVerb, writeConfig } from "../kit.ts";

const TOKEN = "a-token-of-the-admin-listener-0123456789";
const SET = "Set TOLLGATE_ADMIN_TOKEN, or admin.token in the file, to its token";

it("a command without the admin token, or with another one, says which variable has it, and a change that it was not late", async () => {
  const admin = { listen: "127.0.0.1:0", token: TOKEN };
  await using house = await startTestGateway({ config: { admin } });
  await using folder = await openFolder();
  const port = Number(new URL(house.adminUrl).port);
  const file = await writeConfig(folder, { admin: port, token: `\${TOLLGATE_ADMIN_TOKEN:-}` });
  const where = `(admin.listen, ${house.adminUrl})`;
  const run = (verb: string, token: string) => {
    const env = { TOLLGATE_ADMIN_TOKEN: token };
    return runVerb([...verb.split(" "), "--config", file], { env });
  };
  for (const [token, message] of [
    ["", "The gateway asks for its admin token"],
    [TOKEN.replace("9", "0"), "The admin token is not valid"],
  ] as const) {
    for (const verb of ["usage", "bans list", "status"]) {
      const { status, err } = await run(verb, token);
      assert.deepEqual([status, err], [1, `${message} ${where}. ${SET}\n`], verb);
    }
    const made = await run("keys create --env production --plan free", token);
    const unread = `The gateway does not take the admin token. ${SET}. It reads this change by itself: it takes effect within a second\n`;
    assert.deepEqual([made.status, made.err], [0, unread]);
  }
  const remote = await runVerb(["usage", "--admin", house.adminUrl]);
  const named = `The gateway asks for its admin token (--admin, ${house.adminUrl}). Set TOLLGATE_ADMIN_TOKEN to its token\n`;
  assert.deepEqual([remote.status, remote.err], [1, named]);
});

it("a command with --admin whose file has no admin listener says that it has no token to send, and which setting would", async () => {
  const admin = { listen: "127.0.0.1:0", token: TOKEN };
  await using house = await startTestGateway({ config: { admin } });
  await using folder = await openFolder();
  const file = await writeConfig(folder);
  const args = ["explain", "r", "--admin", house.adminUrl, "--config", file];
  const said = await runVerb(args, { env: { TOLLGATE_ADMIN_TOKEN: TOKEN } });
  assert.match(
    said.err,
    / \(--admin, \S+\)\. The file has admin: off, so that no token is sent: set admin\.listen and admin\.token$/m,
  );
});
