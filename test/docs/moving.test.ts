import assert from "node:assert/strict";
import { it } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { sendRequest } from "../support/wire/client.ts";
import { readPage } from "./markdown.ts";

/** The second cell of a row of the page. */
function answerTo(request: string): string {
  const rows = readPage("docs/moving.md").split("\n");
  const cells = rows.find((row) => row.startsWith(`| ${request} |`))?.split(" | ");
  return cells?.[1]?.replace(/ \|$/, "") ?? `no row: ${request}`;
}

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
