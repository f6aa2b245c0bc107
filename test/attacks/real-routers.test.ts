import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { needing } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";
import { openClient } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";
import { openAttacked } from "./attacked.ts";
import {
  type OperationName,
  type RealRouter,
  startFastify,
  startGo,
  startH3,
  startNginx,
  TEMPLATES,
} from "./real-routers.ts";

type Row = {
  readonly name: string;
  readonly paths: "exact" | "loose";
  readonly start: () => Promise<RealRouter>;
  /** Has to be installed. */
  readonly program?: string;
  /** The paths that this router reads neither exactly nor loosely. */
  readonly besides?: RegExp;
};
/** Such paths are refused if they ask for more (escaped-query.test.ts); all of these ask for the same. */
const ESCAPED_END = /%3F|%23/;
const ROUTERS: readonly Row[] = [
  { name: "Fastify", paths: "exact", start: () => startFastify(false) },
  { name: "Go's net/http", paths: "exact", start: startGo, program: "go" },
  { name: "nginx", paths: "exact", start: () => startNginx(false), program: "nginx" },
  { name: "h3", paths: "exact", start: startH3, besides: ESCAPED_END },
  {
    name: "Fastify, told to be loose",
    paths: "loose",
    start: () => startFastify(true),
    // Text beside a parameter stays as it is.
    besides: /\.(?!json)[jJ][sS][oO][nN]/,
  },
  // Locations know nothing of ";".
  {
    name: "nginx, with ~*",
    paths: "loose",
    start: () => startNginx(true),
    program: "nginx",
    besides: /;/,
  },
];
const RUNS = 400;

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
${Object.entries(TEMPLATES)
  .map(
    ([name, template]) =>
      `  ${template.slice("/v1".length)}: { get: { operationId: ${name}, responses: {} } }\n`,
  )
  .join("")}`;

const start = fc.oneof(
  fc.constantFrom(...Object.values(TEMPLATES).map((template) => template.replace(/\{\w+\}/, "x1"))),
  fc
    .string({ unit: fc.constantFrom(..."aZ9-_~.:@!$&'()*+,;="), minLength: 1, maxLength: 6 })
    .map((text) => `/v1/files/${text}`),
);

/** Another spelling of a path, or one that looks like it. */
const spelling = fc.oneof(
  fc.nat().map((at) => (path: string) => {
    const places = [...path].flatMap((one, i) => (/[\w~-]/.test(one) ? [i] : []));
    const place = places[at % places.length] ?? 0;
    const hex = path.charCodeAt(place).toString(16);
    const text = at % 2 === 0 ? hex : hex.toUpperCase();
    // Half an escape is nothing that could be escaped once more.
    if (path.slice(Math.max(0, place - 2), place).includes("%")) return path;
    return `${path.slice(0, place)}%${text}${path.slice(place + 1)}`;
  }),
  fc.nat().map((at) => (path: string) => {
    const place = 4 + (at % Math.max(1, path.length - 4));
    const one = path[place] ?? "";
    const swapped = one === one.toUpperCase() ? one.toLowerCase() : one.toUpperCase();
    return path.slice(0, place) + swapped + path.slice(place + 1);
  }),
  fc
    .constantFrom("/", ";x=1", ";", "%3B", "%3A", "%3F", "%23", "%20", "%C3%A9", ".json", ".JSON")
    .map((end) => {
      return (path: string) => path + end;
    }),
);
const path = fc
  .tuple(start, fc.array(spelling, { maxLength: 4 }))
  .map(([text, changes]) => changes.reduce((spelt, change) => change(spelt), text));

describe("what the gateway found is what the backend's own router finds", () => {
  for (const { name, paths, start: open, program, besides } of ROUTERS) {
    it(`${name}, with paths: ${paths}`, needing(program), async (t) => {
      await using router = await open();
      await using house = await openAttacked({
        api: "./api.yaml",
        files: { "api.yaml": API },
        environment: { paths, upstreams: [router.origin] },
      });
      const client = { now: await openClient(house.port) };
      const count = { same: 0, none: 0 };
      const judge = async (asked: string) => {
        if (!client.now.open()) client.now = await openClient(house.port);
        const answer = await client.now.ask({ key: KEY, path: asked });
        if (answer.status === 400) return void (await client.now.ended);
        const id = onlyValue(answer, "X-Request-Id");
        const line = await eventually(() => house.lines.filter((one) => one.id === id)[0] ?? false);
        if (line === false || line.source === "gateway" || besides?.test(line.path)) return;
        const found = Object.keys(TEMPLATES).find(
          (one) => TEMPLATES[one as OperationName] === line.route,
        );
        const theirs = answer.status === 200 ? answer.body.toString() : undefined;
        if (theirs === undefined) count.none += 1;
        else {
          assert.equal(found, theirs, asked);
          count.same += 1;
        }
      };
      await fc.assert(fc.asyncProperty(path, judge), { numRuns: RUNS });
      client.now.socket.destroy();
      t.annotate(`${count.same} of ${RUNS} found alike, ${count.none} by the gateway alone`);
      assert.ok(count.same > RUNS / 4, `${count.same} of ${RUNS} came to the router at all`);
    });
  }
});
