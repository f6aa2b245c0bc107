import { ADMIN_PROBLEMS, MISSING_NAME, type ProblemCode } from "../http/response.ts";
import { type BodyShape, bodySchema } from "./bodies.ts";
import { RESPONSE_SCHEMAS, type ResponseSchemaName } from "./responses.ts";
import { arrayOf, type Schema, schemaRef } from "./schema.ts";

/** Parameters of the query that any route may take. */
const QUERY = {
  limit: ["So many entries at most", { type: "integer", minimum: 1, maximum: 10_000 }],
  after: ["Begin after this place: use the address in Link", { type: "string" }],
  env: ["Of this environment alone", { type: "string" }],
  plan: ["Of this plan alone", { type: "string" }],
  over: ["Accounts that used at least this percentage of a limit", { type: "number", minimum: 0 }],
  account: ["Of this account alone", { type: "string" }],
  q: [
    "With all of these words, at most 16, in ids, names of keys, plan, state or metadata",
    { type: "string" },
  ],
  order: ["The newest first", { enum: ["newest"] }],
  days: ["The last days, that of now among them", { type: "integer", minimum: 1, maximum: 3_660 }],
  month: ["Of this month of UTC, such as 2026-10", { type: "string" }],
  lost: ["Those alone that this gateway knows and the store does not have", { enum: ["true"] }],
  top: ["So many accounts, of all pages together", { type: "integer", minimum: 1 }],
} as const satisfies Readonly<Record<string, readonly [meaning: string, schema: Schema]>>;

export type QueryName = keyof typeof QUERY;

/** A route: the listener parses requests by it, and the document describes it. */
export type RouteContract = {
  readonly summary: string;
  readonly query?: readonly QueryName[];
  /** Query members that are required. */
  readonly queryRequired?: readonly QueryName[];
  /** The body of a writing request; if undefined, it may be absent or an empty object. */
  readonly body?: BodyShape;
  /** The maximum size of the body, if it may be larger than the default. */
  readonly bodyBytesMax?: number;
  /** Sets of members, one of which a body requires. */
  readonly bodyNeeds?: readonly (readonly string[])[];
  readonly status?: number;
  /** One shape, a list of one, either of two, or text of another media type. */
  readonly answers:
    | ResponseSchemaName
    | readonly [ResponseSchemaName]
    | { readonly oneOrMany: ResponseSchemaName }
    | { readonly type: string };
  /** Set if the list is read page by page, so that nothing knows how many entries it has. */
  readonly isUncounted?: boolean;
  /**
   * Whether the answer may name the parts of a Cluster or the workers that it is without; unless
   * given, those of changes and of lists in pages do.
   */
  readonly namesMissing?: boolean;
  /** Set if the answer is made of the key records: until there is a copy of them it is 503. */
  readonly needsRecords?: true;
  /** The refusals of this route only, in addition to those that any request may get. */
  readonly refuses?: readonly ProblemCode[];
};

export type RouteSpec = {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** "/api/keys/:id" */
  readonly template: string;
  readonly contract: RouteContract;
};

const OF_ANY: readonly ProblemCode[] = ["bad_request", "internal_error"];
const OF_GUARDED: readonly ProblemCode[] = [
  ...(["token_missing", "token_invalid", "host_refused", "origin_refused"] as const),
];
const OF_WRITING: readonly ProblemCode[] = ["body_too_large", "unsupported_media_type"];
const OF_LISTENER: readonly ProblemCode[] = [
  ...(["request_timeout", "expectation_failed", "headers_too_large"] as const),
];

/**
 * The OpenAPI 3.1 description of the admin listener, made from its routes. `hasToken` says whether
 * a token is set; if none is, the description has no security.
 */
export function openApiDocument(
  rows: readonly RouteSpec[],
  { version, hasToken }: { readonly version: string; readonly hasToken: boolean },
): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const row of [...OPEN_ROWS, ...rows]) {
    const path = row.template.replaceAll(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [row.method.toLowerCase()]: operationOf(row) };
  }
  const scheme = {
    type: "http",
    scheme: "bearer",
    description: "admin.token of the configuration",
  };
  return {
    openapi: "3.1.0",
    info: {
      title: "Tollgate admin API",
      version,
      summary: "Keys, accounts, bans, usage and configuration of a running gateway",
      description:
        "Instants are Unix seconds unless said otherwise. HEAD is answered wherever GET is. Writing requests need Content-Type: application/json, also without a body.",
    },
    security: hasToken ? [{ adminToken: [] }] : [{}, { adminToken: [] }],
    paths,
    components: { schemas: RESPONSE_SCHEMAS, securitySchemes: { adminToken: scheme } },
  };
}

/** Endpoints that need no token. The listener responds to them before its guard. */
const OPEN_ROWS: readonly RouteSpec[] = [
  openRow("/livez", { summary: "The process runs", answers: { type: "text/plain" } }),
  openRow("/readyz", {
    summary: "Whether the gateway is ready for requests",
    answers: "Readiness",
  }),
  openRow("/readyz/:environment", {
    summary: "Whether one environment is ready",
    answers: "Readiness",
  }),
  openRow("/metrics", { summary: "Metrics for Prometheus", answers: { type: "text/plain" } }),
];

function openRow(template: string, contract: RouteContract): RouteSpec {
  return { method: "GET", template, contract };
}

function operationOf({ method, template, contract }: RouteSpec): object {
  const isOpen = !template.startsWith("/api/");
  const writes = method !== "GET";
  const refusals = [
    ...OF_ANY,
    ...(isOpen ? [] : OF_GUARDED),
    ...(writes ? OF_WRITING : []),
    ...OF_LISTENER,
    ...(template.includes("/:") ? (["not_found"] as const) : []),
    ...(contract.refuses ?? []),
    ...(contract.needsRecords ? (["store_unavailable"] as const) : []),
  ];
  return {
    operationId: operationId(method, template),
    summary: contract.summary,
    ...(isOpen && { security: [] }),
    parameters: parametersOf(template, contract),
    ...(writes && { requestBody: bodyOf(contract) }),
    responses: {
      [contract.status ?? 200]: answerOf(contract, writes),
      ...(contract.answers === "Readiness" && { 503: answerOf(contract, writes) }),
      ...refusalsOf(refusals),
    },
  };
}

/** The operationId of a route: that of "POST /api/keys/:id/rotate" is postKeysIdRotate. */
function operationId(method: string, template: string): string {
  const words = template.split(/[^A-Za-z]+/).filter((word) => word !== "" && word !== "api");
  const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);
  return method.toLowerCase() + words.map(capital).join("");
}

const IN_PATH: Readonly<Record<string, string>> = {
  id: "An account, or one of its keys",
  request: "The X-Request-Id of an answer",
  environment: "An environment of the configuration",
};

function parametersOf(
  template: string,
  { query = [], queryRequired = [] }: RouteContract,
): object[] {
  const inPath = [...template.matchAll(/:(\w+)/g)].map(([, name = ""]) => {
    const description = IN_PATH[name];
    return { name, in: "path", required: true, description, schema: { type: "string" } };
  });
  const inQuery = query.map((name) => {
    const [description, schema] = QUERY[name];
    return { name, in: "query", required: queryRequired.includes(name), description, schema };
  });
  return [...inPath, ...inQuery];
}

function bodyOf({ body = {}, bodyNeeds }: RouteContract): object {
  const anyOf = bodyNeeds?.map((required) => ({ required }));
  const schema = { ...bodySchema(body), ...(anyOf && { anyOf }) };
  return { required: true, content: { "application/json": { schema } } };
}

function answerOf(contract: RouteContract, writes: boolean): object {
  const { summary: description, answers, query = [], isUncounted } = contract;
  const { namesMissing = writes } = contract;
  const content =
    typeof answers === "object" && "type" in answers
      ? { [answers.type]: { schema: { type: "string" } } }
      : { "application/json": { schema: answerSchema(answers) } };
  const ofPage = isUncounted ? PAGE_FIELDS : { ...PAGE_FIELDS, ...COUNT_FIELD };
  const headers = query.includes("after") ? ofPage : namesMissing ? MISSING_FIELD : undefined;
  return { description, content, ...(headers && { headers }) };
}

const MISSING_FIELD = {
  [MISSING_NAME]: {
    description:
      "The buckets and nodes of a Cluster that cannot be reached, or the workers that did not answer, and in a list of usage the accounts without limits; absent without any",
    schema: { type: "string" },
  },
};

const PAGE_FIELDS = {
  ...MISSING_FIELD,
  Link: {
    description: 'The way to the next page, with rel="next"; absent on the last',
    schema: { type: "string" },
  },
};

const COUNT_FIELD = {
  "X-Total-Count": {
    description: "The entries of all pages together",
    required: true,
    schema: { type: "string", pattern: "^[0-9]+$" },
  },
};

function answerSchema(
  answers: Exclude<RouteContract["answers"], { readonly type: string }>,
): Schema {
  if (typeof answers === "string") return schemaRef(answers);
  if ("oneOrMany" in answers) {
    const one = schemaRef(answers.oneOrMany);
    return { anyOf: [one, arrayOf(one)] };
  }
  return arrayOf(schemaRef(answers[0]));
}

/** The refusals by status, each with its possible codes. */
function refusalsOf(codes: readonly ProblemCode[]): Record<string, object> {
  const byStatus = Map.groupBy(new Set(codes), (code) => ADMIN_PROBLEMS[code]);
  return Object.fromEntries(
    [...byStatus].map(([status, own]) => {
      const schema = { allOf: [schemaRef("Problem"), { properties: { code: { enum: own } } }] };
      const description = `Refused: ${own.join(", ")}`;
      return [status, { description, content: { "application/json": { schema } } }];
    }),
  );
}
