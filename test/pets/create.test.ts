import assert from "node:assert/strict";
import fc from "fast-check";
import { type TestContext, test } from "vitest";
import { each } from "../support/each.ts";
import { assertError, openApi } from "./api.ts";

/** Posts each body and claims 400 for it, and that nothing was kept. */
async function assertAllInvalid(t: TestContext, bodies: readonly (string | Uint8Array)[]) {
  const api = await openApi(t);
  for (const body of bodies) assertError(await api.post(body), 400, "invalid_body");
  assert.equal((await api.get("/v1/pets")).text, "[]");
}

test("an animal comes back as sent, with an id, where Location says", async (t) => {
  const api = await openApi(t);
  const made = await api.post({ name: "Ada", categoryId: 7, status: "pending" });
  const text = '{"id":1,"name":"Ada","categoryId":7,"status":"pending"}';
  assert.deepEqual([made.status, made.text], [201, text]);
  assert.equal(made.headers.get("location"), "/v1/pets/1");
  assert.equal((await api.get("/v1/pets/1")).text, text);
});

test("each status is kept, and one that was left out stays absent", async (t) => {
  const api = await openApi(t);
  for (const status of ["available", "pending", "sold", undefined]) {
    const { json } = await api.post({ name: "Ada", categoryId: 1, status });
    const { id, ...pet } = json as { id: number };
    const wanted = { name: "Ada", categoryId: 1 };
    assert.deepEqual(pet, status === undefined ? wanted : { ...wanted, status });
    assert.deepEqual((await api.get(`/v1/pets/${id}`)).json, json);
  }
});

test("int64 is exact at both ends and beyond 2^53, in every answer", async (t) => {
  const api = await openApi(t);
  const exact = ["9007199254740993", "9223372036854775807", "-9223372036854775808"];
  for (const [i, categoryId] of [...exact, "0", "-1", "-9007199254740993"].entries()) {
    const made = await api.post(`{"name":"Ada","categoryId":${categoryId}}`);
    const text = `{"id":${i + 1},"name":"Ada","categoryId":${categoryId}}`;
    assert.deepEqual([made.status, made.text], [201, text]);
    assert.equal((await api.get(`/v1/pets/${i + 1}`)).text, text);
    assert.ok((await api.get("/v1/pets")).text.includes(text));
  }
});

test("a categoryId that is not an int64 written as an integer is 400", (t) => {
  const wrong = ["9223372036854775808", "-9223372036854775809", "1.0", "1.5", "1e3", "1E0", "-0"];
  const others = ['"1"', "null", "true", "[1]", "{}", "9".repeat(5_000), "1e400", '""'];
  return assertAllInvalid(
    t,
    [...wrong, ...others].map((value) => `{"name":"Ada","categoryId":${value}}`),
  );
});

test("a name of 1 to 200 characters is kept as it is; a longer or an empty one is 400", async (t) => {
  const api = await openApi(t);
  const names = ["a", "a".repeat(200), "😀".repeat(200), " ", 'q"\\\u0000\n\u007f', "\u2028é"];
  for (const name of names) {
    const made = await api.post({ name, categoryId: 1 });
    assert.equal(made.status, 201, name);
    const { id } = made.json as { id: number };
    assert.equal(((await api.get(`/v1/pets/${id}`)).json as { name: string }).name, name);
  }
  for (const name of ["", "a".repeat(201), "😀".repeat(201), "a".repeat(60_000)]) {
    assertError(await api.post({ name, categoryId: 1 }), 400, "invalid_body");
  }
});

test("a name with half a surrogate pair is 400", (t) =>
  assertAllInvalid(
    t,
    ["\\ud83d", "\\ude00", "a\\ude00\\ud83d"].map((name) => `{"name":"${name}","categoryId":1}`),
  ));

test("a missing field, null or another type is 400", (t) => {
  const names = ["null", "1", "true", '["a"]', "{}"].map((it) => `{"name":${it},"categoryId":1}`);
  const statuses = ["null", '"gone"', '"Sold"', '""', "1", '["sold"]', "false"].map(
    (it) => `{"name":"a","categoryId":1,"status":${it}}`,
  );
  return assertAllInvalid(t, [
    ...names,
    ...statuses,
    "{}",
    '{"name":"a"}',
    '{"categoryId":1}',
    '{"Name":"a","categoryId":1}',
  ]);
});

test("the message names every field that is wrong", async (t) => {
  const api = await openApi(t);
  const { json } = await api.post({ name: "", categoryId: "1", status: null });
  assert.match((json as { message: string }).message, /name.*categoryId.*status/);
});

test("unknown fields are ignored, id among them", async (t) => {
  const api = await openApi(t);
  const made = await api.post(
    '{"id":99,"name":"a","tags":[{"x":1.5e9}],"categoryId":1,"createdAt":null,"name ":1}',
  );
  assert.deepEqual([made.status, made.text], [201, '{"id":1,"name":"a","categoryId":1}']);
});

test("__proto__ in a body neither lends its fields nor pollutes", async (t) => {
  const api = await openApi(t);
  const lent = '{"__proto__":{"name":"a","categoryId":1,"status":"sold"}}';
  assertError(await api.post(lent), 400, "invalid_body");
  const beside = await api.post(
    '{"__proto__":{"status":"sold"},"constructor":{"prototype":{"status":"sold"}},"name":"a","categoryId":1}',
  );
  assert.equal(beside.text, '{"id":1,"name":"a","categoryId":1}');
  assert.equal(({} as Record<string, unknown>).status, undefined);
});

test("a field of the wrong type is not told to be missing, and a missing one is", async (t) => {
  const api = await openApi(t);
  const messageOf = async (body: string) =>
    ((await api.post(body)).json as { readonly message: string }).message;
  const wanted = "an int64, written as an integer";
  for (const [value, found] of [
    ['"7"', 'the string "7"'],
    ["1.5", "another number"],
    ["9223372036854775808", "another number"],
    ["null", "null"],
    ["true", "true"],
    ["[7]", "an array"],
    ["{}", "an object"],
  ]) {
    const message = await messageOf(`{"name":"Ada","categoryId":${value}}`);
    assert.equal(message, `categoryId must be ${wanted}: found ${found}`);
  }
  assert.equal(await messageOf('{"name":"Ada"}'), `categoryId is required: ${wanted}`);
  assert.match(await messageOf('{"categoryId":1}'), /^name is required: a string/);
  assert.match(
    await messageOf('{"name":"","categoryId":1}'),
    /^name must be .*: found an empty string$/,
  );
});

test("a key given twice is 400, however it is spelt; in separate objects it is not", async (t) => {
  await assertAllInvalid(t, [
    '{"name":"a","categoryId":1,"name":"b"}',
    '{"name":"a","categoryId":1,"n\\u0061me":"a"}',
    '{"name":"a","categoryId":1,"x":[{"y":1,"y" :2}]}',
  ]);
  const api = await openApi(t);
  const apart = '{"name":"name","categoryId":1,"x":{"name":1},"y":["name","name",{"name":":"}]}';
  assert.equal((await api.post(apart)).status, 201);
});

test("a body nested 32 levels deep passes, one level more is 400", async (t) => {
  const api = await openApi(t);
  const nested = (levels: number) =>
    `{"name":"a","categoryId":1,"x":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
  assert.equal((await api.post(nested(32))).status, 201);
  assertError(await api.post(nested(33)), 400, "invalid_body");
  assertError(await api.post(nested(32_000)), 400, "invalid_body");
});

test("what is not a JSON object in UTF-8 is 400", (t) =>
  assertAllInvalid(t, [
    "",
    " ",
    "null",
    "1",
    '"name"',
    "[]",
    '[{"name":"a","categoryId":1}]',
    '{"name":"a","categoryId":1',
    '{"name":"a","categoryId":1}}',
    "{'name':'a','categoryId':1}",
    '{"name":"a","categoryId":1,}',
    '{"name":"a","categoryId":01}',
    '{"name":"a","categoryId":+1}',
    '{"name":"a","categoryId":NaN}',
    '{"name":"a\nb","categoryId":1}',
    '\ufeff{"name":"a","categoryId":1}',
    "name=a&categoryId=1",
    `"${'\\"'.repeat(32_000)}`,
    "[".repeat(65_000),
    Buffer.from('{"name":"\xff","categoryId":1}', "latin1"),
    Buffer.from('{"name":"\xed\xa0\xbd","categoryId":1}', "latin1"),
    Buffer.from('{"name":"a","categoryId":1}', "utf16le"),
  ]));

test("creates at the same time get ids of their own", async (t) => {
  const api = await openApi(t);
  const made = await Promise.all(
    Array.from({ length: 200 }, (_, i) => api.post({ name: `Pet ${i}`, categoryId: i })),
  );
  const pets = made.map(({ json }) => json as { id: number; name: string; categoryId: number });
  assert.equal(new Set(pets.map(({ id }) => id)).size, 200);
  assert.ok(each(pets).every(({ name, categoryId }, i) => name === `Pet ${i}` && categoryId === i));
});

test("any NewPet within the bounds comes back as sent", async (t) => {
  const api = await openApi(t);
  const newPets = fc.record(
    {
      name: fc
        .string({ unit: "binary", minLength: 1, maxLength: 200 })
        .filter((name) => name.isWellFormed() && [...name].length <= 200),
      categoryId: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      status: fc.constantFrom("available", "pending", "sold"),
    },
    { requiredKeys: ["name", "categoryId"] },
  );
  const check = fc.asyncProperty(newPets, async ({ name, categoryId, status }) => {
    const end = status === undefined ? "" : `,"status":"${status}"`;
    const fields = `"name":${JSON.stringify(name)},"categoryId":${categoryId}${end}`;
    const made = await api.post(`{${fields}}`);
    assert.equal(made.status, 201);
    assert.equal(made.text, `{"id":${(made.json as { id: number }).id},${fields}}`);
  });
  await fc.assert(check, { numRuns: 200 });
});
