import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "vitest";
import { API_ROUTES } from "../../../src/admin/api/routes.ts";
import { openApiDocument } from "../../../src/admin/openapi/document.ts";
import { each } from "../../support/each.ts";

/** The API as programs read it, a line for each operation and shape. `OPENAPI=write` writes it anew. */
const FILE = join(import.meta.dirname, "document.txt");

type Tree = Readonly<Record<string, unknown>>;
const rows = (of: unknown) => Object.entries(of as Readonly<Record<string, Tree>>);

/** A refusal as its description names it, where its schema says the same. */
function answerOf([status, answer]: [string, Tree]): [string, unknown] {
  const codes = String(answer.description).replace("Refused: ", "").split(", ");
  const schema = {
    allOf: [{ $ref: "#/components/schemas/Problem" }, { properties: { code: { enum: codes } } }],
  };
  const refusal = { description: answer.description, content: { "application/json": { schema } } };
  const isPlain = JSON.stringify(answer) === JSON.stringify(refusal);
  return [status, isPlain ? codes.join(" ") : answer];
}

function linesOf({ paths, components, ...head }: Tree): string[] {
  const operations = rows(paths).flatMap(([path, methods]) => {
    return rows(methods).map(([method, { responses, ...rest }]) => {
      const answers = Object.fromEntries(rows(responses).map(answerOf));
      return `${method.toUpperCase()} ${path} ${JSON.stringify({ ...rest, answers })}`;
    });
  });
  const shapes = rows(components).flatMap(([kind, all]) => {
    return rows(all).map(([name, shape]) => `${kind} ${name} ${JSON.stringify(shape)}`);
  });
  return [JSON.stringify(head), ...operations, ...shapes];
}

it("the description of the API is as it was read last, word for word", () => {
  const document = openApiDocument(API_ROUTES, { version: "1.2.3", hasToken: true });
  const lines = linesOf(document as Tree);
  if (process.env.OPENAPI === "write") writeFileSync(FILE, `${lines.join("\n")}\n`);
  const known = readFileSync(FILE, "utf8").trimEnd().split("\n");
  for (const [i, line] of each([...lines.entries()])) assert.equal(line, known[i]);
  assert.equal(lines.length, known.length);
});

it("the description asks for the token only where one is set", () => {
  const of = (hasToken: boolean) => {
    return openApiDocument(API_ROUTES, { version: "1.2.3", hasToken }) as Tree;
  };
  const [open, guarded] = [of(false), of(true)];
  assert.deepEqual(
    [open.security, guarded.security],
    [[{}, { adminToken: [] }], [{ adminToken: [] }]],
  );
  assert.deepEqual({ ...open, security: guarded.security }, guarded);
});
