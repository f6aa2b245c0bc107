import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { runVerb } from "../cli/kit.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { sendRequest } from "../support/wire/client.ts";
import { blocksOf, readPage } from "./markdown.ts";

/** The second cell of a row of the page. */
function answerTo(request: string): string {
  const rows = readPage("docs/moving.md").split("\n");
  const cells = rows.find((row) => row.startsWith(`| ${request} |`))?.split(" | ");
  return cells?.[1]?.replace(/ \|$/, "") ?? `no row: ${request}`;
}

it("docs/reference/keys.md: its lines with a digest let the key in, and neither another key nor a digest in base64", async () => {
  const page = blocksOf("docs/reference/keys.md").map(({ text }) => text);
  const lines = page.filter((text) => text.startsWith('{"record"')).join("");
  const foreignKeys = [{ prefix: "sk_live_", min: 24 }];
  await using gateway = await startTestGateway({ config: { foreignKeys } });
  const file = join(gateway.directory, "digests.jsonl");
  const load = async (text: string) => {
    await writeFile(file, text);
    return runVerb(["keys", "import", file, "--config", join(gateway.directory, "tollgate.yaml")]);
  };
  const digest = /"digest":"(\w+)"/.exec(lines)?.[1] ?? "";
  const base64 = await load(lines.replace(digest, Buffer.from(digest, "hex").toString("base64")));
  assert.equal(base64.status, 1);
  assert.match(base64.err, /:2: digest cannot be used: it must be 64 of 0-9 a-f/);
  const loaded = await load(lines);
  assert.deepEqual([loaded.status, loaded.err], [0, ""]);
  const key = "sk_live_fedcba9876543210fedcba98";
  await eventually(async () => assert.equal((await gateway.ask(key)).status, 200));
  assert.equal((await gateway.ask(key.replace("98", "99"))).status, 401);
});

it("docs/moving.md: says which methods and bodies are refused, with a description and without", async () => {
  await using bare = await startTestGateway({ environment: { api: null } });
  await using described = await startTestGateway();
  const [one, other] = [await bare.issue(), await described.issue()];
  const statuses = async (method: string, body?: string) => {
    const asked = { method, path: "/v1/pets", ...(body === undefined ? {} : { body }) };
    const [of, from] = await Promise.all([
      sendRequest(bare.port, { ...asked, key: one.key }),
      sendRequest(described.port, { ...asked, key: other.key }),
    ]);
    return [of.status, from.status];
  };
  assert.equal(
    answerTo("a body on GET, HEAD or OPTIONS"),
    "400; on DELETE too, if there is a description and the operation has no `requestBody`",
  );
  assert.deepEqual(await statuses("GET", "{}"), [400, 400]);
  assert.deepEqual(await statuses("DELETE", "{}"), [200, 400]);
  assert.equal(answerTo("TRACE and CONNECT"), "405");
  assert.deepEqual(await statuses("TRACE"), [405, 405]);
  const known = "GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS";
  assert.equal(answerTo(`further methods but ${known}, such as PROPFIND`), "501");
  assert.deepEqual(await statuses("PROPFIND"), [501, 501]);
  assert.equal(answerTo("one of these methods without a route in the description"), "405");
  assert.deepEqual(await statuses("PATCH"), [200, 405]);
});
