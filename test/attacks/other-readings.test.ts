import assert from "node:assert/strict";
import Fastify from "fastify";
import { afterAll, describe, it } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";
import { openAttacked } from "./attacked.ts";

/** The operations of the backend, with what the gateway asks for each. */
const COSTS = {
  "/v1/files/token": 50,
  "/v1/files/{name}": 2,
  "/v1/files/{name}.json": 9,
  "/v1/files/{name}/{part}": 3,
  "/v1/files/report": 70,
  "/v1/files/report.{format}": 70,
  "/v1/files/caf\u00e9": 30,
  "/v1/cars": 1,
  "/v1/cars/{name}": 4,
  "/v1/orders/token": 60,
  "/v1/orders/{name}": 2,
  "/v1/orders/{name}/{part}": 3,
} as const;
type Template = keyof typeof COSTS;
const TEMPLATES = Object.keys(COSTS) as Template[];

function described(templates: readonly Template[]): string {
  const paths = templates.map((template) => {
    const path = JSON.stringify(
      encodeURI(template.slice("/v1".length)).replace(/%7[BD]/g, decodeURI),
    );
    return `  ${path}: { get: { responses: {}, x-cost: ${COSTS[template]} } }\n`;
  });
  return `openapi: 3.1.0\ninfo: { title: t, version: 1.0.0 }\npaths:\n${paths.join("")}`;
}

/** A router that is told to read paths as Fastify 4 does by default, and regardless of case. */
async function startRouter() {
  const routerOptions = { caseSensitive: false, useSemicolonDelimiter: true };
  const app = Fastify({ routerOptions });
  for (const template of TEMPLATES) {
    const isStripped = template.startsWith("/v1/orders");
    const path = isStripped ? template.slice("/v1".length) : template;
    app.get(path.replace(/\{(\w+)\}/g, ":$1"), () => template);
  }
  const seen: unknown[] = [];
  app.addHook("onRequest", async (request) => void seen.push(request.url));
  const origin = await app.listen({ port: 0, host: "127.0.0.1" });
  return { app, origin, seen };
}

const router = await startRouter();
const upstreams = [router.origin];
const orders = { path: "/v1/orders", api: "./orders.yaml", stripPrefix: "/v1", upstreams };
const ofOrders = (template: string) => template.startsWith("/v1/orders");
const house = await openAttacked({
  api: "./files.yaml",
  files: {
    "files.yaml": described(TEMPLATES.filter((template) => !ofOrders(template))),
    "orders.yaml": described(TEMPLATES.filter(ofOrders)),
  },
  environment: { paths: "loose", upstreams, backends: [orders] },
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
  await router.app.close();
});

/** The status, the operation that the backend served, and the charge. */
async function ask(path: string) {
  const answer = await sendRequest(house.port, { method: "GET", path, key: KEY });
  const id = onlyValue(answer, "X-Request-Id");
  const line = await eventually(() => house.lines.find((one) => one.id === id) ?? false);
  assert.ok(line);
  const served = answer.status === 200 ? answer.body.toString() : undefined;
  return { status: answer.status, served, charged: line.charged };
}

async function assertRefused(path: string) {
  assert.deepEqual(await ask(path), { status: 400, served: undefined, charged: 0 }, path);
}

async function assertServed(path: string, served: Template, charged: number) {
  assert.deepEqual(await ask(path), { status: 200, served, charged }, path);
}

describe("a router that reads a path up to the first ;", () => {
  it("serves no operation for the price of what follows", async () => {
    for (const end of [";/x", ";a=b/x", ";a;b/x;c", ";/x/", ";a/;b"]) {
      await assertRefused(`/v1/files/token${end}`);
      await assertRefused(`/V1/Files/TOKEN${end}`);
      await assertRefused(`/v1/orders/token${end}`);
      await assertRefused(`/V1;a=b/Orders/token${end}`);
    }
    await assertRefused("/v1/files/7.json;/x");
  });

  it("serves what costs the same or less, and what is cut from the stripped prefix", async () => {
    await assertServed("/v1/files/token", "/v1/files/token", 50);
    await assertServed("/v1/files/token;/", "/v1/files/token", 50);
    await assertServed("/v1/files/7;a/x", "/v1/files/{name}", 3);
    await assertServed("/v1/cars;color=red/7", "/v1/cars", 4);
    await assertServed("/v1;a/orders/7", "/v1/orders/{name}", 2);
    await assertServed("/v1/orders/7%3B/x", "/v1/orders/{name}/{part}", 3);
  });
});

describe("a router that ignores the case of all letters", () => {
  it("serves no operation for the price of one that the gateway finds by ASCII letters", async () => {
    for (const name of ["to%E2%84%AAen", "TO%E2%84%AAEN", "to%e2%84%aaen;/x", "caf%C3%89"]) {
      await assertRefused(`/v1/files/${name}`);
    }
    await assertRefused("/v1/orders/to%E2%84%AAen");
    await assertRefused("/v1/files/to%E2%84%AAen%0A");
  });

  it("serves names with any letters, and the literal path itself", async () => {
    await assertServed("/v1/files/%E2%84%AAiwi", "/v1/files/{name}", 2);
    await assertServed("/v1/files/CAF%C3%A9", "/v1/files/caf\u00e9", 30);
    await assertServed("/v1/files/%C3%9Cber.json", "/v1/files/{name}.json", 9);
  });
});

describe("a router that leaves out dots and spaces at the end", () => {
  it("gets no path that is a dearer operation without them", async () => {
    for (const end of [".", "..", "%20", "%20.", ".%0A"]) {
      await assertRefused(`/v1/files/token${end}`);
      await assertRefused(`/v1/orders/token${end}`);
    }
    await assertServed("/v1/files/a.", "/v1/files/{name}", 2);
    await assertServed("/v1/files/7%20", "/v1/files/{name}", 2);
  });
});

describe("a router that takes a suffix for a format", () => {
  it("serves no suffix for less, if the description has one as a parameter", async () => {
    await assertServed("/v1/files/report", "/v1/files/report", 70);
    for (const end of [".txt", ".x", ".a.b", ".txt;x", ".txt;json"]) {
      await assertServed(`/v1/files/report${end}`, "/v1/files/report.{format}", 70);
    }
    await assertServed("/v1/files/REPORT.TXT", "/v1/files/report.{format}", 70);
    // This router finds an empty part behind the slash.
    assert.equal((await ask("/v1/files/report.txt/")).charged, 70);
  });

  it("gets no path without a text for the format", async () => {
    for (const end of [".", ".;x", "./"]) await assertRefused(`/v1/files/report${end}`);
  });
});

it("the backend saw what the log says was forwarded", () => {
  const forwarded = house.lines.reduce((sum, { forwards }) => sum + forwards, 0);
  assert.equal(router.seen.length, forwarded);
});
