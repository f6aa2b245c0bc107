import assert from "node:assert/strict";
import { test } from "vitest";
import { openApi } from "./api.ts";

const LONG = "x".repeat(40);

test("a refusal says what was wrong, what was found, and what is taken", async (t) => {
  const api = await openApi(t);
  const messageOf = ({ json }: { readonly json: unknown }) => {
    return (json as { readonly message: string }).message;
  };
  for (const [path, message] of [
    ["/v1/pets?limit=0", 'limit must be a whole number from 1 to 100: found "0"'],
    ["/v1/pets?status=gone", 'status must be one of available, pending, sold: found "gone"'],
    [`/v1/pets?after=${LONG}`, `after must be taken from a Link field, as it is: found "${LONG}"`],
    [
      `/v1/pets?after=${LONG}y`,
      `after must be taken from a Link field, as it is: found "${LONG}…"`,
    ],
    ["/v1/pets?limit=1&limit=1", '"limit" must not be repeated'],
    ["/v1/pets?status=sold&status=sold", '"status" must not be repeated'],
    ["/v1/pets?after=MQ&after=MQ", '"after" must not be repeated'],
    ["/v1/pets/one", 'petId must be an int64 in plain decimal: found "one"'],
    ["/v1/pets/7", "There is no animal with the id 7"],
    ["/v1/orders", "There is no such resource"],
  ] as const) {
    assert.equal(messageOf(await api.get(path)), message);
  }
  const categoryId = "an int64, written as an integer";
  const name = "a string of 1 to 200 Unicode characters";
  for (const [body, message] of [
    ["", "The body is empty: send a NewPet as JSON"],
    ["{", "The body is not JSON in UTF-8"],
    ["[]", "The body must be a JSON object"],
    ['{"name":7,"categoryId":1}', `name must be ${name}: found a number`],
    [
      '{"name":"","status":1}',
      `name must be ${name}: found an empty string; categoryId is required: ${categoryId}; status must be one of available, pending, sold, or left out`,
    ],
    ['{"a":1,"a":2}', 'The key "a" appears twice'],
    ["[".repeat(33) + "]".repeat(33), "The body is nested deeper than 32 levels"],
    [" ".repeat(65_537), "The body is larger than 65536 bytes"],
  ] as const) {
    assert.equal(messageOf(await api.post(body)), message);
  }
  const wrong = await api.call("DELETE", "/v1/pets/1");
  assert.equal(messageOf(wrong), "Only GET, HEAD are allowed here");
});
