import assert from "node:assert/strict";
import { afterAll, describe, test } from "vitest";
import { startTestUpstream, type TestUpstream } from "../support/gateway/backend.ts";
import type { TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";
import { lawHolds, openAttacked } from "./attacked.ts";

/** Each template is worth less to who owns it than the literal path that fits it too. */
const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
security: [{ token: [] }]
components: { securitySchemes: { token: { type: http, scheme: bearer } } }
paths:
  /files:
    get: { operationId: list, security: [], responses: {} }
  /folders:
    get: { operationId: folders, security: [], responses: {} }
    post: { operationId: fold, x-cost: 4, responses: {} }
  /folders/{name}:
    get: { operationId: folder, responses: {} }
  /folders/{name}.zip:
    post: { operationId: zip, x-cost: 5, responses: {} }
  /files/{name}:
    get: { operationId: file, security: [], responses: {} }
    post: { operationId: write, responses: {} }
  /files/secret:
    get: { operationId: secret, security: [{ token: [admin] }], responses: {} }
  /files/export:
    post: { operationId: export, x-cost: 50, responses: {} }
  /files/docs:all:
    post: { operationId: all, x-cost: 11, responses: {} }
  /files/h%C3%BChner:
    post: { operationId: hens, x-cost: 13, responses: {} }
  /files/{name}.json:
    post: { operationId: json, x-cost: 7, responses: {} }
  /files/{name}.pdf:
    post: { operationId: pdf, responses: {} }
  /files/{name}.md:
    post: { operationId: md, x-cost: 21, responses: {} }
  /files/.md:
    post: { operationId: itself, x-cost: 2, responses: {} }
  /photos/{name}.png:
    post: { operationId: png, x-brownouts: ["2030-11-05T14:00Z/1h"], responses: {} }
  /files/{name}:publish:
    post: { operationId: publish, x-cost: 9, responses: {} }
  /tasks/{id}:run:
    post: { operationId: run, x-cost: 3, responses: {} }
  /users/{id}:
    delete: { operationId: remove, responses: {} }
  /users/all:
    delete:
      operationId: removeAll
      deprecated: true
      x-deprecated-since: "2020-01-01"
      x-sunset: "2021-01-01"
      responses: {}
`;
const PLANS = { plans: { enterprise: "custom", open: { hour: 10_000 } } };

function openDescribed(paths: "exact" | "loose" | undefined) {
  return openAttacked({
    api: "./api.yaml",
    files: { "api.yaml": API },
    environment: { public: "open", standing: "/v1/Where-I-Stand", ...(paths && { paths }) },
    config: PLANS,
  });
}

const files = await startTestUpstream();
const docs = await startTestUpstream();
const houses = {
  exact: await openDescribed(undefined),
  loose: await openDescribed("loose"),
  raw: await openAttacked({
    config: PLANS,
    environment: {
      api: null,
      public: "open",
      standing: "/v1/my:limits",
      costs: [
        { match: "POST /v1/reports/{id}", cost: 5 },
        { match: "POST /v1/jobs/{id}:run", cost: 6 },
        { match: "POST /v1/docs/export", cost: 8 },
        { match: "POST /v1/docs/.json", cost: 3 },
        { match: "POST /v1/docs/{id}.json", cost: 9 },
      ],
      publicRoutes: ["GET /v1/status:now", "GET /v1/docs"],
      backends: [
        { path: "/v1/files", stripPrefix: "/v1/files", addPrefix: "/f", upstreams: [files.origin] },
        { path: "/v1/x:y", addPrefix: "/f", upstreams: [files.origin] },
        { path: "/v1/Docs", paths: "loose", stripPrefix: "/v1", upstreams: [docs.origin] },
      ],
    },
  }),
};
const { exact, loose, raw } = houses;
afterAll(async () => {
  for (const house of Object.values(houses)) await house[Symbol.asyncDispose]();
  await Promise.all([files.close(), docs.close()]);
});

/** The answer to a request, 200 or the code of a refusal, and what its log line says. */
async function ask(house: TestGateway, request: string, { key = KEY as string | null } = {}) {
  const [method = "", path = ""] = request.split(" ");
  const answer = await sendRequest(house.port, { method, path, ...(key !== null && { key }) });
  const id = onlyValue(answer, "X-Request-Id");
  const [entry] = await eventually(() => {
    const lines = house.lines.filter((one) => one.id === id);
    assert.equal(lines.length, 1);
    return lines;
  });
  const { charged, path: logged } = entry as (typeof house.lines)[number];
  return { answer: answer.status < 400 ? 200 : errorOf(answer).code, charged, logged };
}

function targetOf({ seen }: Pick<TestUpstream, "seen">): string | undefined {
  return seen.at(-1)?.target;
}

describe("two spellings of one path are one path", () => {
  for (const path of ["/v1/files/%73ecret", "/v1/%66iles/se%63%72et", "/%76%31/files/s%65cret"]) {
    test(`${path} asks for the key and the scope of /v1/files/secret`, async () => {
      assert.equal((await ask(exact, `GET ${path}`, { key: null })).answer, "key_missing");
      assert.equal((await ask(exact, `GET ${path}`)).answer, "scope_required");
    });
  }

  test("an escaped letter saves no units", async () => {
    assert.equal((await ask(exact, "POST /v1/files/%65xport")).charged, 50);
    assert.equal((await ask(raw, "POST /v1/%72eports/7")).charged, 5);
  });

  // Starlette, and expressions that end in "$" in nginx, PHP and Ruby, read the path without it.
  test("a newline at the end saves no units and no key", async () => {
    for (const end of ["%0A", "%0a", "%0A?a=b"]) {
      assert.equal((await ask(exact, `POST /v1/files/export${end}`)).answer, "bad_request");
      assert.equal((await ask(loose, `POST /v1/Files/Export${end}`)).answer, "bad_request");
      assert.equal((await ask(raw, `POST /v1/jobs/7:run${end}`)).answer, "bad_request");
      assert.equal((await ask(exact, `GET /v1/files/secret${end}`, { key: null })).charged, 0);
      assert.equal((await ask(exact, `DELETE /v1/users/all${end}`)).answer, "bad_request", "gone");
      assert.equal((await ask(raw, `GET /v1/status:now${end}`)).answer, "bad_request");
      assert.equal((await ask(raw, `GET /v1/files${end}`)).answer, "bad_request");
    }
  });

  test("a newline goes on where the path without it is of the same operation, or of none", async () => {
    assert.equal((await ask(exact, "POST /v1/files/a%0A")).charged, 1);
    assert.equal((await ask(exact, "POST /v1/files/%0A")).charged, 1);
    assert.equal((await ask(exact, "POST /v1/files/export%0Aa?b=%0A")).charged, 1);
    assert.equal((await ask(raw, "POST /v1/reports/7%0A")).charged, 5);
    assert.equal((await ask(raw, "POST /v1/other%0A")).answer, 200);
    assert.equal((await ask(exact, "POST /v1/nowhere%0A")).answer, "not_found");
  });

  // A router that leaves a slash at the end away reads what is left up to "$".
  test("with paths: loose a newline before what is overlooked at the end saves nothing", async () => {
    for (const end of ["%0A/", "%0a;x", "%0A;x/", "%0A/;x", "%0A;/?a=b"]) {
      assert.equal((await ask(loose, `POST /v1/files/export${end}`)).answer, "bad_request", end);
      assert.equal((await ask(loose, `DELETE /v1/users/all${end}`)).answer, "bad_request", end);
      assert.equal((await ask(raw, `POST /v1/docs/export${end}`)).answer, "bad_request", end);
      assert.equal((await ask(loose, `POST /v1/files/other${end}`)).charged, 1, end);
    }
    assert.equal((await ask(loose, "POST /v1/files/export%0Aa/")).charged, 1);
    assert.equal((await ask(exact, "POST /v1/files/export%0A;x")).charged, 1);
  });

  // Fastify matches an empty name, and a name that a literal follows matches no line end there.
  test("a name without text, or with a line end, beside a literal is refused where that is another price", async () => {
    const names = [
      "",
      ...["%0A", "%0d", "%C2%85", "%E2%80%A8", "%E2%80%A9"].map((end) => `7${end}`),
    ];
    for (const name of names) {
      for (const house of [exact, loose]) {
        const json = `/v1/files/${name}.json`;
        assert.equal((await ask(house, `POST ${json}`)).answer, "bad_request", json);
        assert.equal((await ask(house, `POST /v1/files/${name}:publish`)).answer, "bad_request");
        assert.equal((await ask(house, `POST /v1/files/${name}.pdf`)).charged, 1, "the same price");
        const other = name === "" ? 200 : "method_not_allowed";
        assert.equal((await ask(house, `GET ${json}`)).answer, other, "as ever");
      }
      assert.equal((await ask(raw, `POST /v1/jobs/${name}:run`)).answer, "bad_request", name);
      assert.equal((await ask(raw, `POST /v1/reports/${name || 7}.json`)).charged, 5);
    }
    for (const house of [exact, loose]) {
      assert.equal((await ask(house, "POST /v1/files/.md")).charged, 2, "a path of its own");
    }
    assert.equal((await ask(raw, "POST /v1/docs/.json")).charged, 3);
    assert.equal((await ask(exact, "POST /v1/files/%0D%C2%85a")).charged, 1, "no literal");
    assert.equal(
      (await ask(exact, "POST /v1/tasks/:run")).answer,
      "not_found",
      "no other template",
    );
    assert.equal((await ask(exact, "POST /v1/tasks/7%0A:run")).charged, 3);
    assert.equal((await ask(loose, "POST /v1/photos/7;x.png;y%0A")).answer, "not_found");
    assert.equal((await ask(loose, "POST /v1/photos/7.png;%0A")).charged, 1, "its own brownouts");
  });

  test("an escaped letter brings no operation back after its sunset", async () => {
    assert.equal((await ask(exact, "DELETE /v1/users/all")).answer, "gone");
    assert.equal((await ask(exact, "DELETE /v1/users/%61ll")).answer, "gone");
  });

  test("an escaped letter takes no request away from its backend", async () => {
    for (const path of ["/v1/%66iles/a%2Db", "/%761/fil%65s/a-b"]) {
      assert.equal((await ask(raw, `GET ${path}`)).answer, 200);
      assert.equal(targetOf(files), "/f/a-b", "what follows stripPrefix, in the normal form");
    }
    assert.equal((await ask(raw, "GET /v1/x%3ay/a")).answer, 200);
    assert.equal(targetOf(files), "/f/v1/x%3Ay/a");
  });

  test("what is matched is logged and forwarded, byte for byte, and the query as it was", async () => {
    for (const [sent, normal] of [
      ["/v1/files/%61%2d%5f%7e%5A%30", "/v1/files/a-_~Z0"],
      ["/v1/files/%c3%bc%3b%3a", "/v1/files/%C3%BC%3B%3A"],
      ["/v1/files/a%20b?%61=%7e%zz", "/v1/files/a%20b?%61=%7e%zz"],
    ] as const) {
      const { answer, logged } = await ask(exact, `POST ${sent}`);
      assert.equal(answer, 200);
      assert.equal(targetOf(exact.backend), normal);
      assert.equal(logged, normal.split("?")[0]);
    }
  });

  test("literals are compared by their decoded bytes, whole segments and parts of one", async () => {
    for (const [request, charged] of [
      ["POST /v1/files/docs:all", 11],
      ["POST /v1/files/docs%3aall", 11],
      ["POST /v1/files/docs%3Aall", 11],
      ["POST /v1/files/h%c3%bchner", 13],
      ["POST /v1/files/H%c3%bchner", 1],
      ["POST /v1/files/a.json", 7],
      ["POST /v1/files/a.%6ason", 7],
      ["POST /v1/files/.pdf", 1],
      ["POST /v1/files/a:publish", 9],
      ["POST /v1/files/a%3Apublish", 9],
      ["POST /v1/files/a%3apubli%73h", 9],
      ["POST /v1/files/a.json:publish", 9],
      ["POST /v1/files/a:publish.json", 7],
    ] as const) {
      assert.deepEqual([request, (await ask(exact, request)).charged], [request, charged]);
    }
    assert.equal((await ask(raw, "POST /v1/jobs/7%3Arun")).charged, 6);
    assert.equal((await ask(raw, "GET /v1/status%3Anow", { key: null })).answer, 200);
    assert.equal((await ask(raw, "GET /v1/status%3Anever", { key: null })).answer, "key_missing");
  });

  test("the path at which a key asks where it stands has one spelling", async () => {
    for (const path of ["/v1/my:limits", "/v1/my:limit%73", "/v1/my%3alimits"]) {
      const { answer, charged } = await ask(raw, `GET ${path}`);
      assert.deepEqual([path, answer, charged], [path, 200, 0]);
    }
    assert.equal((await ask(raw, "GET /v1/My:limits")).charged, 1, "forwarded");
    assert.equal((await ask(loose, "GET /v1/where-i-stand/")).charged, 0);
  });
});

describe("with paths: loose", () => {
  const spellings = ["SECRET", "Secret/", "secret/", "secret;v=1", "%73ecreT;/", "secret;a;b"];
  for (const name of spellings) {
    test(`/v1/files/${name} is /v1/files/secret, and with paths: exact it is not`, async () => {
      assert.equal((await ask(loose, `GET /v1/files/${name}`)).answer, "scope_required");
      const { answer } = await ask(exact, `GET /v1/files/${name}`);
      assert.equal(answer, name.endsWith("/") ? "not_found" : 200);
    });
  }

  test("literals of every kind are compared so: base path, template, part of a segment", async () => {
    for (const [request, charged] of [
      ["POST /V1;x/Files;y/Export/", 50],
      ["POST /v1/files/a.JSON", 7],
      ["POST /v1/files/a.json;v=1/", 7],
      ["POST /v1/files/A:Publish", 9],
      ["POST /v1/files/H%C3%BChner", 13],
      ["POST /v1/files/h%C3%9Chne", 1],
      ["POST /v1/files/docs%3Ball", 1],
    ] as const) {
      assert.deepEqual([request, (await ask(loose, request)).charged], [request, charged]);
    }
  });

  test("nothing but letters, one slash at the end and what follows ; is overlooked", async () => {
    for (const path of ["/v1/files/secret//", "/v1/files/secret/;/", "/v1/files/;/secret"]) {
      assert.notEqual((await ask(loose, `GET ${path}`)).answer, 200);
    }
    assert.equal((await ask(loose, "GET /v1/files/secre")).answer, 200);
    const before = docs.seen.length;
    for (const path of ["/v1/docs/;/a", "/v1/docs//a", "/v1/docs/;a//"]) {
      assert.notEqual((await ask(raw, `GET ${path}`)).answer, 200, "some routers leave it out");
    }
    assert.equal(docs.seen.length, before);
  });

  // Express takes ";…" for a part of the name, and serves the operation whose literal stands at its end.
  test("parameters with the literal of an operation that asks for something else are refused", async () => {
    for (const name of [
      "a;.json",
      "7;x.json",
      "7;x.JSON",
      "7;x.%6Ason/",
      "7;:publish",
      "a;%3apublish",
    ]) {
      assert.equal((await ask(loose, `POST /v1/files/${name}`)).answer, "bad_request", name);
      assert.equal((await ask(loose, `POST /V1;y/Files/${name}`)).answer, "bad_request", name);
      assert.equal(
        (await ask(exact, `POST /v1/files/${name}`)).answer === 200,
        !name.endsWith("/"),
      );
    }
    assert.equal((await ask(raw, "POST /v1/docs/7;x.json")).answer, "bad_request");
    assert.equal((await ask(raw, "POST /v1/docs/7.json;x")).charged, 9);
    // The operation of the ending has another method, or asks for the same.
    for (const name of ["a;.json", "7;x.json"]) {
      assert.equal((await ask(loose, `GET /v1/files/${name}`)).answer, 200, name);
    }
    assert.equal((await ask(loose, "POST /v1/files/7;x.txt")).charged, 1);
    assert.equal((await ask(loose, "POST /v1/files/a.json;x")).charged, 7);
    assert.equal((await ask(loose, "POST /v1/files/a.json;.json")).charged, 7);
    assert.equal((await ask(loose, "POST /v1/files/7;x.pdf")).charged, 1, "asks for the same");
    // The path that the gateway finds has a literal of its own, before the ";".
    for (const name of ["a.pdf;x.md", "docs:all;x.md", "export;x.json", "a.json;x.md/"]) {
      assert.equal((await ask(loose, `POST /v1/files/${name}`)).answer, "bad_request", name);
    }
    assert.equal((await ask(raw, "POST /v1/docs/export;x.json")).answer, "bad_request");
    assert.equal((await ask(loose, "POST /v1/files/export;x=1")).charged, 50);
    assert.equal((await ask(loose, "POST /v1/files/docs:all;x.txt")).charged, 11);
  });

  // Express reads it as the item ";7", servlets as the collection.
  test("a last segment that begins with ; is the collection, if the item asks for the same", async () => {
    const before = docs.seen.length;
    for (const end of [";7", ";", ";%37"]) {
      assert.equal((await ask(loose, `GET /v1/files/${end}`, { key: null })).answer, 200, end);
      assert.equal((await ask(loose, `GET /V1;y/Files/${end}`, { key: null })).answer, 200, end);
      assert.equal((await ask(loose, `GET /v1/folders/${end}`)).answer, "bad_request", end);
      assert.equal((await ask(loose, `GET /V1;y/Folders;z/${end}`)).answer, "bad_request", end);
      assert.equal((await ask(raw, `GET /v1/docs/${end}`)).answer, "bad_request", end);
      assert.equal((await ask(raw, `GET /v1/docs/${end}`, { key: null })).answer, "bad_request");
    }
    assert.equal((await ask(loose, "POST /v1/folders/;jsessionid=7")).charged, 4, "no such item");
    for (const item of [";7.zip", ";7;x.zip"]) {
      assert.equal((await ask(loose, `POST /v1/folders/${item}`)).answer, "bad_request", item);
    }
    assert.equal(docs.seen.length, before);
    for (const path of ["/v1/files", "/v1/files/", "/v1/files;7", "/v1/files;7/"]) {
      assert.equal((await ask(loose, `GET ${path}`, { key: null })).answer, 200, path);
    }
    assert.equal((await ask(loose, "GET /v1/files/%3B7", { key: null })).answer, 200, "an item");
    assert.equal((await ask(raw, "GET /v1/docs;7/", { key: null })).answer, 200);
  });

  test("a segment that begins with ; before a slash is neither the collection nor an item", async () => {
    const before = [docs.seen.length, loose.backend.seen.length];
    for (const end of [";7/", "a/;/b", ";/a"]) {
      assert.equal((await ask(loose, `GET /v1/files/${end}`)).answer, "not_found", end);
      assert.equal((await ask(raw, `GET /v1/docs/${end}`)).answer, "not_found", end);
      assert.equal((await ask(loose, `GET /v1/files/${end}`, { key: null })).answer, "key_missing");
      assert.equal((await ask(raw, `GET /v1/docs/${end}`, { key: null })).answer, "key_missing");
    }
    assert.deepEqual([docs.seen.length, loose.backend.seen.length], before);
  });

  test("what is forwarded is what the client sent, in the normal form", async () => {
    assert.equal((await ask(loose, "POST /V1/Files/Expor%74;a/?b")).answer, 200);
    assert.equal(targetOf(loose.backend), "/V1/Files/Export;a/?b");
  });

  test("a backend may be loose by itself, and its prefix goes in whatever spelling", async () => {
    for (const path of ["/v1/docs/A", "/V1/DOCS;x/A", "/v1;y/d%6fcs/A"]) {
      assert.equal((await ask(raw, `GET ${path}`)).answer, 200);
      assert.equal(targetOf(docs), path.replace(/^\/v1(;y)?/i, "").replace("%6f", "o"));
    }
    const before = files.seen.length;
    assert.equal((await ask(raw, "GET /v1/FILES/a")).answer, 200);
    assert.equal(files.seen.length, before, "its neighbour is exact");
  });
});

test("the law holds after all of it", async () => {
  await lawHolds(exact);
  await lawHolds(loose);
});
