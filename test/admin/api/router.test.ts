import assert from "node:assert/strict";
import { it } from "vitest";
import { matchApiRoute } from "../../../src/admin/api/router.ts";

it("a path of two routes has each of its methods once", () => {
  const found = matchApiRoute("PUT", "/api/keys/export");
  assert.ok(!found.ok);
  assert.deepEqual(found.response.fields, ["Allow", "GET, HEAD, PATCH"]);
});

it("an id in a path may be escaped, as that of an address is, and what cannot be an id is nowhere", () => {
  const idOf = (path: string) => {
    const found = matchApiRoute("HEAD", path);
    return found.ok ? found.id : found.response.status;
  };
  assert.equal(idOf("/api/usage/addr:2001:db8::%2F64"), "addr:2001:db8::/64");
  assert.equal(idOf("/api/keys"), "");
  for (const id of ["%zz", "a%20b", "", "a".repeat(65)])
    assert.equal(idOf(`/api/usage/${id}`), 404, id);
});
