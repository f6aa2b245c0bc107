import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "vitest";
import { parseDocument } from "yaml";
import { REFUSALS } from "../../src/core/refusal-table.ts";
import { PET_PROBLEMS } from "../../src/pets/problem.ts";
import { type Answer, openApi } from "./api.ts";
import { flaws, type Schema } from "./schema.ts";

type Field = { required: boolean; schema: Schema; example?: unknown; examples?: Examples };
type Examples = Record<string, { value: unknown }>;
type Media = { schema: Schema; examples: Examples };
type Content = { "application/json": Media };
type Response = { description: string; headers: Record<string, Field>; content: Content };
type Operation = {
  operationId: string;
  tags: string[];
  deprecated?: boolean;
  parameters?: { name: string; required: boolean; schema: Schema; example?: unknown }[];
  requestBody?: { required: boolean; content: Content };
  responses: Record<string, Response>;
  [extension: `x-${string}`]: unknown;
};
type Description = {
  openapi: string;
  info: { version: string; description: string; contact: { email: string } };
  servers: { url: string; description: string }[];
  tags: { name: string }[];
  security: Record<string, unknown>[];
  paths: Record<string, Record<"get" | "post", Operation>>;
  components: {
    securitySchemes: Record<string, { type: string; scheme: string }>;
    schemas: Record<string, Schema>;
    headers: Record<string, Field>;
    responses: Record<string, Response>;
  };
};

const FILE = new URL("../../config/pets.openapi.yaml", import.meta.url);
const CONFIG = new URL("../../config/tollgate.yaml", import.meta.url);
const SOURCE = readFileSync(FILE, "utf8");
const used = new Set<string>();
const description = read();

/** The description with every $ref replaced by what it names; integers as bigint, to be exact. */
function read(): Description {
  const document = parseDocument(SOURCE, { intAsBigInt: true, uniqueKeys: true });
  assert.deepEqual([...document.errors, ...document.warnings], []);
  const root: unknown = document.toJS();
  const resolved = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(resolved);
    if (typeof value !== "object" || value === null) return value;
    if (!("$ref" in value)) {
      return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, resolved(it)]));
    }
    const ref = String(value.$ref);
    used.add(ref);
    const path = ref.replace(/^#\//, "").split("/");
    const target = path.reduce<unknown>((at, key) => (at as Record<string, unknown>)?.[key], root);
    assert.notEqual(target, undefined, `${ref} leads nowhere`);
    return resolved(target);
  };
  return resolved(root) as Description;
}

const { get: listPets, post: createPet } = description.paths["/pets"]!;
const { get: getPet } = description.paths["/pets/{petId}"]!;
const OPERATIONS = [listPets, createPet, getPet];

/** These are the gateway's to send: the backend knows nothing of them. */
const OF_THE_GATEWAY =
  /^(X-RateLimit-.*|X-Request-Id|Deprecation|Sunset|Retry-After|WWW-Authenticate)$/;

function assertDescribed(operation: Operation, answer: Answer): void {
  const at = `${operation.operationId} ${answer.status}`;
  const response = operation.responses[String(answer.status)];
  assert.ok(response, `${at} is not described`);
  for (const [name, { required }] of Object.entries(response.headers)) {
    if (!required || OF_THE_GATEWAY.test(name)) continue;
    if (operation === getPet && name === "Link") continue;
    assert.ok(answer.headers.has(name), `${at} has no ${name}`);
  }
  for (const name of ["link", "location", "allow"]) {
    const isDescribed = Object.keys(response.headers).some((it) => it.toLowerCase() === name);
    assert.ok(!answer.headers.has(name) || isDescribed, `${at}: ${name} not described`);
  }
  assert.deepEqual(flaws(response.content["application/json"].schema, answer.json), [], at);
}

test("the file says what the specification says", () => {
  assert.match(description.openapi, /^3\.1\./);
  assert.equal(description.info.version, "1.0.0");
  const servers = description.servers.map((it) => [it.description, it.url.endsWith("/v1")]);
  assert.deepEqual(servers, [
    ["production", true],
    ["staging", true],
  ]);
  assert.deepEqual(
    description.tags.map(({ name }) => name),
    ["animals"],
  );
  assert.deepEqual(Object.keys(description.paths), ["/pets", "/pets/{petId}"]);
  const ids = OPERATIONS.map(({ operationId, tags }) => [operationId, tags.join()]);
  assert.deepEqual(ids, [
    ["listPets", "animals"],
    ["createPet", "animals"],
    ["getPet", "animals"],
  ]);
  const [[scheme = ""] = []] = description.security.map((it) => Object.keys(it));
  const { type, scheme: kind } = description.components.securitySchemes[scheme]!;
  assert.deepEqual([type, kind], ["http", "bearer"]);
  const required = Object.entries(description.components.schemas).map(([k, v]) => [k, v.required]);
  assert.deepEqual(Object.fromEntries(required), {
    Pet: ["id", "name", "categoryId"],
    NewPet: ["name", "categoryId"],
    Error: ["code", "message", "status"],
    PetStatus: undefined,
    Pets: undefined,
  });
});

test("getPet is announced as deprecated, removed on 5 December 2030, with a successor", () => {
  assert.equal(getPet.deprecated, true);
  assert.equal(getPet["x-sunset"], "2030-12-05");
  assert.equal(getPet["x-deprecated-sunset"], "2030-12-05");
  assert.equal(getPet["x-successor"], "/v1/pets?status=available");
  const sinceMs = Date.parse(String(getPet["x-deprecated-since"]));
  const { headers } = getPet.responses["410"]!;
  assert.equal(headers.Deprecation?.example, `@${sinceMs / 1_000}`);
  assert.equal(headers.Sunset?.example, new Date("2030-12-05").toUTCString());
  assert.deepEqual([listPets.deprecated, createPet.deprecated], [undefined, undefined]);
});

test("a generated client has base URLs: no server's URL has a variable", () => {
  for (const { url } of description.servers) assert.equal(new URL(url).pathname, "/v1");
});

test("the codes of an Error are those of the gateway and of the service, all and no other", () => {
  const { code } = description.components.schemas.Error?.properties ?? {};
  const codes = [...Object.keys(REFUSALS), ...Object.keys(PET_PROBLEMS)];
  assert.deepEqual(code?.enum, [...new Set(codes)].sort());
});

test("the plans are those of the shipped configuration", () => {
  const { plans } = parseDocument(readFileSync(CONFIG, "utf8")).toJS() as { plans: object };
  const rows = Object.entries(plans).map(([name, plan]: [string, Record<string, number>]) => {
    const cell = (window: string) => plan[window]?.toLocaleString("en") ?? "agreed";
    return `| ${name[0]?.toUpperCase()}${name.slice(1)} | ${cell("minute")} | ${cell("day")} |`;
  });
  for (const row of rows) assert.ok(description.info.description.includes(row), row);
  assert.equal(rows.length, 4);
  assert.ok(description.info.contact.email);
});

test("int64 has its exact bounds wherever it is named", () => {
  const places = SOURCE.match(
    /format: int64\n\s+minimum: -9223372036854775808\n\s+maximum: 9223372036854775807\n/g,
  );
  assert.equal(places?.length, 4);
  assert.equal(SOURCE.match(/format: int64/g)?.length, 4);
});

test("every answer has the rate limit fields, and every refusal the Error shape", () => {
  for (const { operationId, responses } of OPERATIONS) {
    for (const [status, { headers, content }] of Object.entries(responses)) {
      for (const name of ["Limit", "Remaining", "Reset"]) {
        assert.ok(headers[`X-RateLimit-${name}`], `${operationId} ${status} ${name}`);
      }
      assert.ok(headers["X-Request-Id"], `${operationId} ${status}`);
      if (status.startsWith("2")) continue;
      const { schema } = content["application/json"];
      assert.deepEqual(schema, description.components.schemas.Error, `${operationId} ${status}`);
    }
  }
});

test("every example is as its schema, and every component is used", () => {
  for (const { operationId, responses, requestBody, parameters = [] } of OPERATIONS) {
    const contents = Object.values(responses).map(({ content }) => content);
    for (const content of requestBody ? [...contents, requestBody.content] : contents) {
      const { schema, examples } = content["application/json"];
      for (const [name, { value }] of Object.entries(examples)) {
        assert.deepEqual(flaws(schema, value), [], `${operationId} ${name}`);
      }
    }
    for (const { name, schema, example } of parameters) {
      if (example !== undefined) assert.deepEqual(flaws(schema, example), [], name);
    }
  }
  for (const [name, { schema, example }] of Object.entries(description.components.headers)) {
    if (example !== undefined) assert.deepEqual(flaws(schema, example), [], name);
  }
  const { securitySchemes: _, ...components } = description.components;
  const all = Object.entries(components).flatMap(([kind, it]) =>
    Object.keys(it).map((name) => `#/components/${kind}/${name}`),
  );
  assert.deepEqual(
    all.filter((ref) => !used.has(ref)),
    [],
  );
});

test("an example of an Error has the status of its response", () => {
  for (const { responses } of OPERATIONS) {
    for (const [status, { content }] of Object.entries(responses)) {
      if (!/^[45]/.test(status)) continue;
      for (const { value } of Object.values(content["application/json"].examples)) {
        assert.equal(String((value as { status: bigint }).status), status);
      }
    }
  }
});

test("every answer of the server is described, body and fields", async (t) => {
  const api = await openApi(t, { seed: true });
  const lists = ["", "?limit=1", "?status=sold", "?limit=0", "?status=x", "?after=x", "?x=1"];
  for (const query of lists) assertDescribed(listPets, await api.get(`/v1/pets${query}`));
  assertDescribed(listPets, await api.call("PATCH", "/v1/pets"));
  for (const id of ["1", "5", "77", "x", "%zz"]) {
    assertDescribed(getPet, await api.get(`/v1/pets/${id}`));
  }
  assertDescribed(getPet, await api.call("DELETE", "/v1/pets/1"));
  const valid = '{"name":"Ada","categoryId":1}';
  for (const body of [
    valid,
    "",
    "{}",
    "x".repeat(65_537),
    '{"status":"sold",'.concat(valid.slice(1)),
  ]) {
    assertDescribed(createPet, await api.post(body));
  }
  assertDescribed(createPet, await api.post(valid, { "content-type": "text/plain" }));
});

test("the server holds the bounds that are described", async (t) => {
  const api = await openApi(t);
  const { name, categoryId } = description.components.schemas.NewPet!.properties!;
  const status = async (length: bigint, category: bigint) =>
    (await api.post(`{"name":"${"n".repeat(Number(length))}","categoryId":${category}}`)).status;
  const [shortest, longest] = [name?.minLength, name?.maxLength] as [bigint, bigint];
  const [least, most] = [categoryId?.minimum, categoryId?.maximum] as [bigint, bigint];
  assert.deepEqual([await status(shortest, least), await status(longest, most)], [201, 201]);
  assert.deepEqual([await status(shortest - 1n, 1n), await status(longest + 1n, 1n)], [400, 400]);
  assert.deepEqual([await status(1n, least - 1n), await status(1n, most + 1n)], [400, 400]);
  const limit = listPets.parameters?.find((it) => it.name === "limit")?.schema;
  const [few, many] = [limit?.minimum, limit?.maximum] as [bigint, bigint];
  for (const [value, wanted] of [
    [few, 200],
    [many, 200],
    [few - 1n, 400],
    [many + 1n, 400],
  ] as const) {
    assert.equal((await api.get(`/v1/pets?limit=${value}`)).status, wanted);
  }
});
