import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "vitest";
import { prettyLogFormatter } from "../../../src/cli/framework/pretty-log.ts";
import type { Terminal } from "../../../src/cli/framework/terminal.ts";
import { eventually } from "../../support/poll.ts";
import { openFolder, writeConfig } from "../kit.ts";

const ESCAPE = String.fromCharCode(27);
const time = Date.UTC(2026, 4, 5, 12, 0, 10);
const terminal = (more: object) =>
  ({ isTty: true, env: { NO_COLOR: "1" }, ...more }) as unknown as Terminal;
const format = (line: object, more = {}) => {
  return prettyLogFormatter(terminal(more))?.(`${JSON.stringify(line)}\n`);
};

describe("the log at a terminal", () => {
  it("is JSON where no terminal reads it", () => {
    assert.equal(prettyLogFormatter(terminal({ isTty: false })), undefined);
  });

  it("shows a request as one short line, a refusal by its code", () => {
    const request = { level: "info", time, msg: "request", env: "production", method: "GET" };
    const passed = { ...request, path: "/v1/pets", status: 200, plan: "free", account: "a_1" };
    const refused = { ...request, path: "/v1/pets", status: 429, code: "rate_limited" };
    assert.equal(
      format({ ...passed, durationMs: 3.2 }),
      "12:00:10 200 production GET /v1/pets  free a_1  3.2 ms\n",
    );
    assert.equal(
      format({ ...refused, durationMs: 0.1 }),
      "12:00:10 429 production GET /v1/pets  rate_limited  0.1 ms\n",
    );
  });

  it("shows an event by its name with every member, and passes other text on", () => {
    const event = {
      level: "warn",
      time,
      msg: "store_evicts",
      store: "redis://x",
      limits: { a: 1 },
    };
    assert.equal(format(event), '12:00:10 warn: store evicts  store: redis://x  limits: {"a":1}\n');
    assert.equal(format({ level: "info", time, msg: "serving" }), "12:00:10 serving\n");
    assert.equal(format({ level: "error", time, msg: "failed" }), "12:00:10 error: failed\n");
    const cut = { level: "info", time, msg: "event", kind: "sent_too_late", account: "a_1" };
    assert.equal(format(cut), "12:00:10 sent too late  account: a_1\n");
    const format_ = prettyLogFormatter(terminal({}));
    for (const text of ["\nTollgate is up.\n{broken\n", "7\n", "null\n", '"x"\n', "{}\n"]) {
      assert.equal(format_?.(text), text);
    }
  });

  it("has no escapes with NO_COLOR or on a dumb terminal, and some otherwise", () => {
    const event = { level: "info", time, msg: "serving" };
    for (const env of [{ NO_COLOR: "1" }, { TERM: "dumb" }]) {
      assert.ok(!format(event, { env })?.includes(ESCAPE));
    }
    const styled = format(event, { env: {} }) ?? "";
    assert.ok(styled.startsWith(`${ESCAPE}[2m12:00:10${ESCAPE}[0m ${ESCAPE}[1mserving`), styled);
  });

  it("has the status of each error in bold, from 400 on", () => {
    const request = { level: "info", time, msg: "request", method: "GET", path: "/" };
    for (const [status, isBold] of [
      [200, false],
      [399, false],
      [400, true],
      [503, true],
    ] as const) {
      const line = format({ ...request, status }, { env: {} });
      assert.equal(line?.includes(`${ESCAPE}[1m${status}`), isBold, line ?? "");
    }
  });

  it("lets nobody move the cursor or turn the text around", () => {
    const why = `a${ESCAPE}[2Jb${String.fromCodePoint(0x202e)}c`;
    assert.match(
      format({ level: "info", time, msg: "x", why }) ?? "",
      /why: a\\u001b\[2Jb\\u202ec\n$/,
    );
  });

  it("is what start writes to a real one", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const start = `"${process.execPath}" src/main.ts start --config "${file}"`;
    // `script` gives the command a terminal, and passes on what is typed.
    const env = { ...process.env, NO_COLOR: "1" };
    const terminal_ = spawn("script", ["-qec", start, "/dev/null"], { env, stdio: "pipe" });
    let said = "";
    terminal_.stdout.setEncoding("utf8").on("data", (piece) => {
      said += piece;
    });
    await eventually(() => assert.match(said, /serving/), { withinMs: 60_000 });
    terminal_.stdin.write(String.fromCharCode(3));
    await once(terminal_, "close");
    assert.match(said, /serving.* urls:.* \{"production":"http/);
    assert.match(said, /stopped/);
    assert.doesNotMatch(said, /"msg"/);
  });
});
