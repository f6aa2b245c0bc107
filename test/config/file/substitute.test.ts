// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are what is tested
import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { substitute } from "../../../src/config/file/substitute.ts";
import { ENVIRONMENTS, loadFiles, loadLines, PLANS, told } from "../folder.ts";

describe("substitute", () => {
  const env = { NAME: "value", EMPTY: "", DOLLARS: "$$ ${NAME}", _a1: "low" };
  const rows: readonly (readonly [text: string, replaced: string, why: string])[] = [
    ["plain", "plain", "no reference"],
    ["${NAME}", "value", "a variable"],
    ["<${NAME}-${_a1}>", "<value-low>", "several inside of text"],
    ["${MISSING:-default}", "default", "a default for an unset variable"],
    ["${EMPTY:-default}", "default", "a default for an empty one, as in a shell"],
    ["${EMPTY}", "", "an empty variable is set"],
    ["${MISSING:-}", "", "an empty default"],
    ["${NAME:-default}", "value", "the variable before the default"],
    ["${MISSING:-redis://h:1/0?a=b c}", "redis://h:1/0?a=b c", "anything in a default but $ and }"],
    ["$$", "$", "a literal dollar"],
    ["$${NAME}", "${NAME}", "a literal reference"],
    ["$$${NAME}", "$value", "a dollar before a reference"],
    ["$$$${NAME}", "$${NAME}", "two literal dollars"],
    ["$NAME costs 5$", "$NAME costs 5$", "a dollar before anything but a brace"],
    ["${DOLLARS}", "$$ ${NAME}", "what a variable holds is not replaced again"],
  ];
  for (const [text, replaced, why] of rows) {
    it(`${why}: ${text}`, () => {
      assert.deepEqual(substitute(text, env).mistakes, []);
      assert.equal(substitute(text, env).text, replaced);
    });
  }

  for (const text of ["${}", "${1A}", "${A B}", "${A", "${A:default}", "${A-b}", "${A:-${B}}"]) {
    it(`tells ${text} without repeating it`, () => {
      const { mistakes } = substitute(text, { A: "a", B: "b" });
      assert.ok(mistakes.length > 0);
      assert.match(mistakes[0] ?? "", /^a reference is malformed/);
    });
  }

  it("never finds a variable in the prototype", () => {
    assert.match(substitute("${constructor}", {}).mistakes[0] ?? "", /has no constructor/);
  });
});

describe("references in the file", () => {
  it("become numbers and words as if they stood there", async () => {
    const lines = `plans:
  free:
    minute: \${LIMIT}
    day: "\${DAY:-1000}"
bans: \${B}`;
    const config = await loadLines(lines, { LIMIT: "60", B: "off" });
    assert.deepEqual(config.plans.get("free"), [
      { window: "minute", limit: 60 },
      { window: "day", limit: 1000 },
    ]);
    assert.equal(config.bans, undefined);
  });

  it("stay text in quotes", async () => {
    const config = await loadLines('storePrefix: "${P}"', { P: "123" });
    assert.equal(config.storePrefix, "123");
  });

  it("add no structure, whatever a variable holds", async () => {
    const lines = "storePrefix: ${P}\n";
    const text = ENVIRONMENTS + PLANS + lines;
    const loaded = await loadFiles({ "tollgate.yaml": text }, { P: "tg\nadmin: off" });
    assert.equal(told(loaded).length, 1);
    assert.match(told(loaded)[0] ?? "", /^4:14: Cannot read storePrefix as .* not shown/);
  });

  it("are not looked for in comments and keys", async () => {
    await loadLines("# ${NO_SUCH}\nlog: { level: info } # ${NO_SUCH");
    const text = `${ENVIRONMENTS}plans:\n  \${PLAN}: { minute: 1 }\n`;
    const [message] = told(await loadFiles({ "tollgate.yaml": text }, { PLAN: "free" }));
    assert.match(message ?? "", /^4:3: Cannot use "\$\{PLAN\}" as a name in plans/);
  });

  it("leave lines and columns as they are in the file", async () => {
    const text = `${ENVIRONMENTS}${PLANS}limits: { drain: "\${LONG}", bodyBytes: big }\n`;
    const loaded = await loadFiles({ "tollgate.yaml": text }, { LONG: "25000\n\n\nms" });
    assert.deepEqual(
      told(loaded).map((line) => line.split(" ")[0]),
      ["4:18:", "4:40:"],
    );
  });
});

describe("a reference to a file", () => {
  const token = "t".repeat(32);
  const text = `${ENVIRONMENTS}${PLANS}admin: { listen: 0.0.0.0:0, token: "\${file:secrets.txt}" }\n`;

  it("is its content, without the line break at its end", async () => {
    for (const ending of ["", "\n", "\r\n"]) {
      const loaded = await loadFiles({ "tollgate.yaml": text, "secrets.txt": token + ending });
      assert.ok(loaded.ok);
      assert.equal(loaded.config.admin?.token, token);
    }
  });

  it("keeps its dollars, braces and inner line breaks", () => {
    const content = "a ${NAME} $$ b\n";
    const files = new Map([["f", { ok: true, text: content } as const]]);
    const replaced = substitute("<${file:f}>", { NAME: "value" }, files);
    assert.deepEqual([replaced.text, replaced.used], [`<${content}>`, ["f"]]);
  });

  it("makes the file one of those that are watched", async () => {
    const loaded = await loadFiles({ "tollgate.yaml": text, "secrets.txt": token });
    assert.ok(loaded.ok && loaded.files.some((file) => file.endsWith("/secrets.txt")));
  });

  it("that is not there, or too large, is a mistake at its place, and only where it is used", async () => {
    const files = { "tollgate.yaml": `# \${file:nowhere}\n${text}` };
    const [missing = ""] = told(await loadFiles(files));
    assert.match(missing, /^5:36: .*admin\.token: cannot read the file secrets\.txt: there is no/);
    const large = await loadFiles({ ...files, "secrets.txt": "t".repeat(64 * 1024 + 1) });
    assert.match(told(large)[0] ?? "", /it is larger than 65536 bytes/);
    const fits = await loadFiles({ ...files, "secrets.txt": "t".repeat(64 * 1024) });
    assert.deepEqual(
      told(fits).filter((line) => line.includes("file")),
      [],
    );
  });

  it("never shows its content in a mistake", async () => {
    const file = `${ENVIRONMENTS}${PLANS}limits: { drain: "\${file:secrets.txt}" }\n`;
    const [message = ""] = told(
      await loadFiles({ "tollgate.yaml": file, "secrets.txt": "hunter2" }),
    );
    assert.match(message, /^4:18: /);
    assert.equal(message.includes("hunter2"), false);
  });
});

describe("the hash", () => {
  const api = "openapi: 3.1.0\npaths: {}\n";
  const text = `environments:
  a: { listen: 127.0.0.1:0, keyTag: a, upstreams: [http://a], api: ./api.yaml }
plans: { free: { minute: 1 } }
storePrefix: \${P:-tg}
`;
  const hashOf = async (files: Record<string, string>, env: Record<string, string> = {}) => {
    const loaded = await loadFiles({ "tollgate.yaml": text, "api.yaml": api, ...files }, env);
    assert.ok(loaded.ok);
    return loaded.config.hash;
  };

  it("is the same for the same file, wherever it is", async () => {
    assert.equal(await hashOf({}), await hashOf({}, { UNUSED: "1" }));
  });

  it("changes with the file and a description", async () => {
    const hashes = [
      await hashOf({}),
      await hashOf({ "tollgate.yaml": `${text}# a comment\n` }),
      await hashOf({ "api.yaml": `${api}# a comment\n` }),
    ];
    assert.equal(new Set(hashes).size, 3);
  });

  it("says nothing of what was substituted: it stands on the open /metrics", async () => {
    assert.equal(await hashOf({}), await hashOf({}, { P: "other" }));
  });
});
