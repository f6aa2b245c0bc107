import assert from "node:assert/strict";
import { test } from "vitest";
import { assertError, openApi } from "./api.ts";

test("an animal is found by its id, and an id that nobody has is 404", async (t) => {
  const api = await openApi(t);
  await api.post({ name: "Ada", categoryId: 1 });
  assert.equal((await api.get("/v1/pets/1")).status, 200);
  for (const id of ["2", "0", "-1", "9223372036854775807", "-9223372036854775808"]) {
    assertError(await api.get(`/v1/pets/${id}`), 404, "not_found");
  }
});

test("a petId that is not an int64 in plain decimal is 400", async (t) => {
  const api = await openApi(t);
  await api.post({ name: "Ada", categoryId: 1 });
  const numbers = ["9223372036854775808", "-9223372036854775809", "01", "-0", "+1", "1.0", "1e0"];
  const others = ["0x1", "one", "1%20", "%201", "1,2", "null", "-", "1%00", "%D9%A1", "1n", "1;2"];
  for (const id of [...numbers, ...others, "1".repeat(20), "1".repeat(4_000), "1%2F"]) {
    assertError(await api.get(`/v1/pets/${id}`), 400, "invalid_parameter");
  }
});

test("HEAD answers like GET, without the body", async (t) => {
  const api = await openApi(t);
  for (let i = 0; i < 3; i++) await api.post({ name: "Ada", categoryId: 1 });
  for (const path of ["/v1/pets?limit=2", "/v1/pets/1", "/v1/pets/7", "/v1/pets/x", "/healthz"]) {
    const get = await api.get(path);
    const head = await api.call("HEAD", path);
    assert.deepEqual([head.status, head.text], [get.status, ""]);
    for (const name of ["content-type", "content-length", "link"]) {
      assert.equal(head.headers.get(name), get.headers.get(name), `${path} ${name}`);
    }
  }
});
