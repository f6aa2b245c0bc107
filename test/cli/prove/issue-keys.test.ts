import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { it } from "vitest";
import { issueKeys } from "../../../src/cli/prove/issue-keys.ts";
import { PLANS } from "../../../src/cli/prove/trial/workload.ts";

type Wanted = { readonly environment: string; readonly plan: string; readonly count: number };

/** An admin listener that issues what it is asked for, but for this plan. */
async function openIssuer(refused?: string) {
  const asked: Wanted[] = [];
  const server = createServer(async (request, response) => {
    const wanted = JSON.parse(await text(request)) as Wanted;
    asked.push(wanted);
    const { plan, count } = wanted;
    const issued = Array.from({ length: count }, (_, i) => ({
      account: `${plan}${i}`,
      key: `k${i}`,
    }));
    response.end(JSON.stringify(plan === refused ? { message: "There is no room" } : issued));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const close = async () => void server.close();
  return { url: `http://127.0.0.1:${port}`, asked, [Symbol.asyncDispose]: close };
}

it("a proof has three accounts on each of its plans", async () => {
  await using issuer = await openIssuer();
  const clients = await issueKeys(issuer.url);
  const wanted = Object.keys(PLANS).map((plan) => ({ environment: "proof", plan, count: 3 }));
  assert.deepEqual(issuer.asked, wanted);
  assert.equal(clients.length, 9);
  assert.deepEqual(clients[5], { account: "steady2", key: "k2", plan: "steady" });
});

it("a gateway that issues no keys for a proof is told with its reason", async () => {
  await using issuer = await openIssuer("steady");
  await assert.rejects(issueKeys(issuer.url), {
    message: "Cannot issue keys of steady: There is no room",
  });
});
