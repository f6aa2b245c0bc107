import assert from "node:assert/strict";
import fc from "fast-check";
import { test } from "vitest";
import type { Pet } from "../../src/pets/pet.ts";
import { each } from "../support/each.ts";
import { type Api, assertError, openApi } from "./api.ts";

const STATUSES = ["available", "pending", "sold", undefined] as const;

function ids(json: unknown): number[] {
  return (json as { id: number }[]).map(({ id }) => id);
}

async function addMany(api: Api, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await api.post({ name: `Pet ${i}`, categoryId: i, status: STATUSES[i % STATUSES.length] });
  }
}

test("an empty store lists as an empty array, without a next page", async (t) => {
  const api = await openApi(t);
  const { status, text, headers } = await api.get("/v1/pets");
  assert.deepEqual([status, text, headers.get("link")], [200, "[]", null]);
});

test("limit is 20 unless given, and a page that holds everything has no next one", async (t) => {
  const api = await openApi(t);
  await addMany(api, 20);
  const full = await api.get("/v1/pets");
  assert.deepEqual([ids(full.json).length, full.headers.get("link")], [20, null]);
  await addMany(api, 1);
  const more = await api.get("/v1/pets");
  assert.equal(ids(more.json).length, 20);
  assert.match(more.headers.get("link") ?? "", /^<\/v1\/pets\?limit=20&after=[^>]+>; rel="next"$/);
});

test("limit from 1 to 100 is obeyed, anything else is 400", async (t) => {
  const api = await openApi(t);
  await addMany(api, 101);
  for (const limit of [1, 2, 99, 100]) {
    assert.equal(ids((await api.get(`/v1/pets?limit=${limit}`)).json).length, limit);
  }
  const wrong = ["0", "101", "-1", "1e1", "%2B5", "+5", "%205", "5%20", "5.0", "05", "0x5", ""];
  for (const limit of [...wrong, "five", "1,2", "NaN", "%D9%A5", "9".repeat(400), "5%00"]) {
    assertError(await api.get(`/v1/pets?limit=${limit}`), 400, "invalid_parameter");
  }
  assertError(await api.get("/v1/pets?limit"), 400, "invalid_parameter");
});

test("status filters by each of its values; another one is 400", async (t) => {
  const api = await openApi(t);
  await addMany(api, 12);
  for (const [i, status] of ["available", "pending", "sold"].entries()) {
    const { json } = await api.get(`/v1/pets?status=${status}`);
    assert.deepEqual(ids(json), [i + 1, i + 5, i + 9]);
    assert.ok(each(json as Pet[]).every((pet) => pet.status === status));
  }
  for (const status of ["", "Available", "available%20", "gone", "null", "constructor"]) {
    assertError(await api.get(`/v1/pets?status=${status}`), 400, "invalid_parameter");
  }
});

test("a repeated parameter is 400, alike or not; an unknown one is ignored, repeated too", async (t) => {
  const api = await openApi(t);
  for (const query of [
    "limit=1&limit=1",
    "status=sold&status=pending",
    "after=MQ&x=1&after=MQ",
    "x=1&x=2&limit=1&limit=2",
  ]) {
    assertError(await api.get(`/v1/pets?${query}`), 400, "invalid_parameter");
  }
  for (const query of ["color=red", "x=1&x=2", "Limit=0", "limit[]=0", "__proto__=1", "&&=&%zz"]) {
    assert.equal((await api.get(`/v1/pets?${query}`)).status, 200, query);
  }
});

test("a cursor that we did not make is 400", async (t) => {
  const api = await openApi(t);
  await addMany(api, 2);
  const link = (await api.get("/v1/pets?limit=1")).headers.get("link") ?? "";
  const cursor = /after=([^>&]+)/.exec(link)?.[1] ?? "";
  assert.deepEqual(ids((await api.get(`/v1/pets?after=${cursor}`)).json), [2]);
  for (const after of [
    "",
    "1",
    "x",
    `${cursor}=`,
    `${cursor}A`,
    `A${cursor}`,
    "LTA",
    "MDE",
    "%00",
  ]) {
    assertError(await api.get(`/v1/pets?after=${after}`), 400, "invalid_parameter");
  }
});

test("walking the pages gives every matching animal exactly once, in the order of ids", async (t) => {
  const api = await openApi(t);
  await addMany(api, 130);
  const walks = fc.record({
    limit: fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 60, max: 70 })),
    status: fc.constantFrom(...STATUSES),
  });
  const check = fc.asyncProperty(walks, async ({ limit, status }) => {
    const wanted = Array.from({ length: 130 }, (_, i) => i + 1).filter(
      (id) => status === undefined || STATUSES[(id - 1) % STATUSES.length] === status,
    );
    const seen: number[] = [];
    let next = `/v1/pets?limit=${limit}${status === undefined ? "" : `&status=${status}`}`;
    let pages = 0;
    while (next !== "") {
      const { json, headers } = await api.get(next);
      seen.push(...ids(json));
      pages += 1;
      assert.ok(pages <= 131, "the walk does not end");
      next = /^<(\/v1\/pets\?[^>]+)>; rel="next"$/.exec(headers.get("link") ?? "")?.[1] ?? "";
    }
    assert.deepEqual(seen, wanted);
    assert.equal(pages, Math.ceil(wanted.length / limit));
  });
  const examples = [1, 13, 65, 100].map((limit) => [{ limit, status: undefined }] as const);
  await fc.assert(check, { numRuns: 40, examples: examples.map(([walk]) => [walk]) });
});

test("what is added during a walk is found at its end, and nothing twice", async (t) => {
  const api = await openApi(t);
  await addMany(api, 3);
  const first = await api.get("/v1/pets?limit=2");
  await addMany(api, 1);
  const next = /<([^>]+)>/.exec(first.headers.get("link") ?? "")?.[1] ?? "";
  const second = await api.get(next);
  assert.deepEqual(
    [ids(first.json), ids(second.json)],
    [
      [1, 2],
      [3, 4],
    ],
  );
  assert.equal(second.headers.get("link"), null);
});
