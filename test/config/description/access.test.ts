import assert from "node:assert/strict";
import { it } from "vitest";
import { readDescription } from "../../../src/config/description/openapi.ts";

const NO_KEY = "none of its alternatives can be met by a bearer key";
const SCHEMES = "token: { type: http, scheme: Bearer }, basic: { type: http, scheme: basic }";

/** One operation with this security, in another file than the description and its schemes. */
async function accessOf(security: string, { schemes = SCHEMES, beside = "" } = {}) {
  const text = `openapi: 3.1.0
components: { securitySchemes: { ${schemes} } }
paths: { /a: { $ref: "a.yaml#/item" } }
`;
  const item = `item: { get: { operationId: a, security: ${security} } }\n${beside}`;
  const read = await readDescription(text, {
    file: "api.yaml",
    basePath: "/v1",
    rules: { hasPublicPlan: true, keyHeaders: ["authorization", "x-api-key"] },
    readFile: async () => ({ ok: true, text: item }),
  });
  const [operation] = read.operations;
  const told = [...read.mistakes, ...read.warnings].map(({ message }) => message);
  return { scopes: operation?.scopes, isPublic: operation?.isPublic, told };
}

it("a key has the scopes of one alternative, each once, and needs none where one names none", async () => {
  for (const [security, scopes, isPublic] of [
    ["[{ token: [a, b, a] }, { token: [c] }]", [["a", "b"], ["c"]], false],
    ["[{ token: [a] }, { token: [] }]", [], false],
    ["[{ token: [a] }, {}]", [], true],
  ] as const) {
    assert.deepEqual(await accessOf(security), { scopes, isPublic, told: [] }, security);
  }
});

it("a security scheme is that of the file of the configuration, else of the file of the operation", async () => {
  const beside = "components: { securitySchemes: { own: { type: oauth2 } } }\n";
  const { scopes, told } = await accessOf("[{ own: [a] }]", { beside });
  assert.deepEqual([scopes, told], [[["a"]], []]);
});

it("a security scheme is found through sixteen references, and not through more or in a circle", async () => {
  const chain = (count: number) => {
    const hops = Array.from({ length: count }, (_, i) => {
      return `s${i}: { $ref: "#/components/securitySchemes/s${i + 1}" }`;
    });
    return [...hops, `s${count}: { type: openIdConnect }`].join(", ");
  };
  assert.deepEqual((await accessOf("[{ s0: [a] }]", { schemes: chain(16) })).told, []);
  const circle = 's0: { $ref: "#/components/securitySchemes/s0" }';
  for (const schemes of [chain(17), circle]) {
    const { told } = await accessOf("[{ s0: [a] }]", { schemes });
    assert.equal(told.length, 2, told.join("\n"));
    assert.ok(told[0]?.includes(NO_KEY));
  }
});

it("an alternative with a mistake is told by that mistake, not as one that no key can meet", async () => {
  for (const [security, mistake] of [
    ["[{ tokn: [], basic: [] }]", /^Cannot use the security scheme "tokn"/],
    ["[{ basic: [], token: a }]", /token as a list of scopes/],
    ["[{ basic: [], token: ['a b'] }]", /Cannot read item.get.security\[0\].token\[0\]/],
    ["[{ basic: [] }, 7]", /Cannot read item.get.security\[1\]/],
  ] as const) {
    const { told } = await accessOf(security);
    assert.match(told[0] ?? "", mistake, security);
    assert.ok(!told.join().includes(NO_KEY), security);
  }
});

it("a key meets http bearer, oauth2, openIdConnect, and a field that keyHeaders names, and nothing else", async () => {
  const field = (name: string, place = "header") => `{ type: apiKey, in: ${place}, name: ${name} }`;
  const also = (name: string) => `, or name the field ${name} in keyHeaders`;
  const schemes = `${SCHEMES}, flow: { type: oauth2 }, id: { type: openIdConnect },
    given: ${field("X-Api-Key")}, query: ${field("x-api-key", "query")},
    one: ${field("X-One")}, two: ${field("X-Two")}`;
  for (const [security, ending] of [
    ["[{ token: [] }]", undefined],
    ["[{ flow: [] }]", undefined],
    ["[{ id: [] }]", undefined],
    ["[{ given: [] }]", undefined],
    ["[{ basic: [] }]", ""],
    ["[{ query: [] }]", ""],
    ["[{ basic: [], one: [] }]", ""],
    ["[{ token: [], one: [] }, { two: [] }]", also("x-one")],
  ] as const) {
    const { told } = await accessOf(security, { schemes });
    const refused = told.find((one) => one.includes(NO_KEY));
    const expected = ending === undefined ? undefined : `openIdConnect scheme${ending}`;
    assert.equal(refused?.slice(-(expected?.length ?? 0)), expected, security);
  }
});

it("windows of an operation that needs no key that are longer than an hour are a warning, and of any other as long as they are", async () => {
  const limits = "x-limits: { second: 5, hour: 9, day: 50, year: 900 }";
  for (const security of ["[]", "[{ token: [a] }, {}]"]) {
    const { told } = await accessOf(`${security}, ${limits}`);
    assert.equal(told.length, 2, security);
    assert.match(
      told[0] ?? "",
      /^Each client address is kept for the whole day, as this operation needs no key/,
    );
    assert.match(
      told[1] ?? "",
      /^Each client address is kept for the whole year, .*an hour at most \(second, minute, hour\)/,
    );
  }
  assert.deepEqual((await accessOf("[], x-limits: { hour: 9 }")).told, []);
  assert.deepEqual((await accessOf(`[{ token: [a] }], ${limits}`)).told, []);
});
