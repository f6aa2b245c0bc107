import assert from "node:assert/strict";
import { afterEach, describe, it, vi } from "vitest";
import { fetchAdmin, fetchAllPages, LIST, TEXT } from "../../../src/cli/access/admin-client.ts";
import { gatewayRecordsIdentity } from "../../../src/cli/access/gateway-differences.ts";
import { refreshGateway } from "../../../src/cli/access/refresh-gateway.ts";
import type { Config } from "../../../src/config/config.ts";
import { freePort } from "../../support/redis/redis.ts";
import { openAdmin, send } from "./admin-server.ts";

const LATER = /: it takes effect within a second$/;
const PATH = { path: "/api/x", members: ["known"] };

async function answerOf(status: number, body: unknown, asked: object = {}) {
  await using admin = await openAdmin((response) => send(response, status, body));
  const answer = await fetchAdmin(admin.config, { ...PATH, ...asked });
  return { answer, origin: admin.origin };
}

describe("a question to the admin listener", () => {
  it("has its method, body and token, and keeps no connection", async () => {
    await using admin = await openAdmin((response) => send(response, 200, { known: 1 }));
    const answer = await fetchAdmin(admin.config, { ...PATH, method: "POST", body: { ä: 1 } });
    assert.deepEqual(answer, { ok: true, value: { known: 1 }, next: undefined });
    const untold = { admin: { ...admin.config.admin, token: "" } };
    await fetchAdmin(untold, PATH);
    const [one, two] = admin.questions;
    assert.deepEqual([one?.asked, one?.body], ["POST /api/x", '{"ä":1}']);
    assert.deepEqual([two?.asked, two?.body], ["GET /api/x", ""]);
    const { authorization, connection, "content-type": type } = one?.headers ?? {};
    const sent = [`Bearer ${"t".repeat(32)}`, "close", "application/json"];
    assert.deepEqual([authorization, connection, type], sent);
    assert.equal(two?.headers.authorization, undefined);
  });

  it("is wrong usage if it is answered 400, and an answer besides if its status is expected", async () => {
    const wrong = await answerOf(400, { message: "No such window" });
    assert.deepEqual(wrong.answer, { ok: false, message: "No such window", usage: true });
    const made = await answerOf(201, { known: 2 }, { also: [201] });
    assert.deepEqual([made.answer.ok, made.answer.ok && made.answer.value], [true, { known: 2 }]);
    const conflict = await answerOf(409, { message: "Changed" });
    assert.deepEqual(conflict.answer, { ok: false, message: "Changed", status: 409 });
    const mistake = { file: "a.yaml", line: 3, column: 5, message: "Off" };
    const others = [null, "x", {}, { ...mistake, file: { toString: 1 } }, { ...mistake, line: [] }];
    const strange = await answerOf(422, { message: "Wrong", mistakes: [...others, mistake] });
    const message = "Wrong\na.yaml:3:5: Off";
    assert.deepEqual(strange.answer, { ok: false, message, status: 422 });
  });

  it("about an ID that the gateway does not know is told without the gateway's words", async () => {
    const message = 'Cannot find "a/b": no key or account has this ID';
    for (const code of ["unknown_id", "not_found"]) {
      const body = { code, message: "No such path" };
      assert.deepEqual((await answerOf(404, body, { id: "a/b" })).answer, { ok: false, message });
      const { answer } = await answerOf(404, body);
      assert.deepEqual(answer, { ok: false, message: "No such path", status: 404 });
    }
  });

  it("that is refused says at which place, and by which option that was named", async () => {
    const set = ". Set TOLLGATE_ADMIN_TOKEN, or admin.token in the file, to its token";
    for (const [status, more] of [
      [401, set],
      [403, ""],
    ] as const) {
      const { answer, origin } = await answerOf(status, { message: "Refused" });
      const message = `Refused (admin.listen, ${origin})${more}`;
      assert.deepEqual(answer, { ok: false, message, status });
    }
    for (const body of [7, null, {}, { message: 7 }]) {
      await using admin = await openAdmin((response) => send(response, 500, body));
      const answer = await fetchAdmin({ admin: undefined }, { ...PATH, origin: admin.origin });
      const message = `The gateway at ${admin.origin} (--admin) answers 500`;
      assert.deepEqual(answer, { ok: false, message, status: 500 });
      assert.equal(admin.questions[0]?.headers.authorization, undefined);
    }
  });

  it("goes to the gateway that is named also where that of the file has any free port", async () => {
    await using admin = await openAdmin((response) => send(response, 200, { known: 1 }));
    const anyPort = { ...admin.config.admin, listen: { host: "127.0.0.1", port: 0 } };
    const answer = await fetchAdmin({ admin: anyPort }, { ...PATH, origin: admin.origin });
    assert.ok(answer.ok, JSON.stringify(answer));
  });

  it("is not answered by a value that lacks one of its members", async () => {
    const { answer } = await answerOf(200, { known: 1 }, { members: ["known", "other"] });
    assert.match(answer.ok ? "" : answer.message, /: what answered is no admin listener of Tollga/);
  });

  it("says why nothing else can answer it", async () => {
    const only = "only it knows";
    const reasonOf = async (port: number) => {
      const listen = { host: "127.0.0.1", port };
      const answer = await fetchAdmin(
        { admin: port < 0 ? undefined : { listen, token: "", hosts: [] } },
        { ...PATH, only },
      );
      return answer.ok ? undefined : answer.message;
    };
    const cannot = "Cannot ask the gateway";
    assert.equal(await reasonOf(-1), `${cannot}, and ${only}: admin is off, set admin.listen`);
    const anyPort = "admin.listen has port 0, name one";
    assert.equal(await reasonOf(0), `${cannot}, and ${only}: ${anyPort}`);
    const port = await freePort();
    const where = `at http://127.0.0.1:${port} (admin.listen), and ${only}`;
    assert.equal(await reasonOf(port), `${cannot} ${where}: nothing listens there. Is it running?`);
  });

  it("has an answer whose letters were cut, and none if it breaks off", async () => {
    await using admin = await openAdmin((response, { asked }) => {
      const bytes = Buffer.from('{"known":"é"}');
      response.write(bytes.subarray(0, 11));
      setTimeout(() => {
        if (asked === "GET /api/x") response.end(bytes.subarray(11));
        else response.destroy();
      }, 100);
    });
    const answer = await fetchAdmin(admin.config, PATH);
    assert.deepEqual(answer.ok && answer.value, { known: "é" });
    const broken = await fetchAdmin(admin.config, { ...PATH, path: "/api/y" });
    assert.match(
      broken.ok ? "" : broken.message,
      /\(admin\.listen\): the connection ended before its answer\. Is it running\?$/,
    );
  });

  it("for a list has all pages, or the reason of the first that failed", async () => {
    await using admin = await openAdmin((response, { asked }) => {
      const page = asked.slice("GET /api/".length);
      if (page === "gone") return send(response, 410, { message: "Gone" });
      const next = page === "a" ? "b" : page === "x" ? "gone" : undefined;
      send(response, 200, [page], next && `</api/${next}>; rel="next"`);
    });
    const config = admin.config as unknown as Config;
    const all = await fetchAllPages(config, { path: "/api/a" });
    assert.deepEqual(all, { ok: true, value: ["a", "b"] });
    const failed = await fetchAllPages(config, { path: "/api/x" });
    assert.equal(failed.ok ? "" : failed.message, "Gone");
    const told = await fetchAdmin(config, { path: "/api/a", members: TEXT });
    assert.deepEqual(told, { ok: true, value: '["a"]' });
  });

  it("for a list lacks what any of its pages lacks, also the first of several", async () => {
    const pages = new Map([
      ["a", { next: "b", missing: "workers 1, buckets 3 at 10.0.0.2:6379" }],
      ["b", { next: "c", missing: "workers 1" }],
    ]);
    await using admin = await openAdmin((response, { asked }) => {
      const page = asked.slice("GET /api/".length);
      const { next, missing } = pages.get(page) ?? {};
      if (missing !== undefined) response.setHeader("X-Tollgate-Missing", missing);
      send(response, 200, [page], next && `</api/${next}>; rel="next"`);
    });
    const all = await fetchAllPages(admin.config as unknown as Config, { path: "/api/a" });
    const missing = ["workers 1", "buckets 3 at 10.0.0.2:6379"];
    assert.deepEqual(all, { ok: true, value: ["a", "b", "c"], missing });
  });
});

describe("a gateway that is silent", () => {
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  const waits: number[] = [];
  /** Each wait is noted, and given up a tenth of a second later. */
  const hurry = () => {
    waits.length = 0;
    vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
      waits.push(ms);
      return timeout(100);
    });
  };
  afterEach(() => void vi.restoreAllMocks());

  it("is waited for 10 s, by further questions of a verb for what is left of that, and then told", async () => {
    hurry();
    await using admin = await openAdmin((response, { asked }) => {
      // Some of an answer is no answer either.
      if (asked === "GET /api/y") response.write("{");
    });
    for (const path of ["/api/x", "/api/y"]) {
      const answer = await fetchAdmin(admin.config, { path, members: LIST });
      const message = `Cannot ask the gateway at ${admin.origin} (admin.listen): it does not answer. Is it running?`;
      assert.deepEqual(answer, { ok: false, message });
    }
    await fetchAdmin(admin.config, { ...PATH, withinMs: 2_000 });
    assert.match((await refreshGateway(admin.config)).unread ?? "", LATER);
    assert.equal(await gatewayRecordsIdentity(admin.config), undefined);
    assert.deepEqual(waits, [10_000, 0, 0, 0, 0]);
    const token = `Bearer ${"t".repeat(32)}`;
    assert.deepEqual(
      admin.questions.slice(-2).map(({ asked, headers }) => [asked, headers.authorization]),
      [
        ["POST /api/keys/refresh", token],
        ["GET /api/records", token],
      ],
    );
  });

  it("gets no change for which no time is left", async () => {
    hurry();
    await using admin = await openAdmin(() => {});
    await fetchAdmin(admin.config, PATH);
    const lift = { ...PATH, method: "DELETE", look: "`bans why x`" };
    const message = `Cannot ask the gateway at ${admin.origin} (admin.listen): it does not answer. Is it running?`;
    assert.deepEqual(await fetchAdmin(admin.config, lift), { ok: false, message });
    const later = await fetchAdmin(admin.config, { ...lift, withinMs: 10_001 });
    assert.match(later.ok ? "" : later.message, /^It is not known whether this was done: /);
    const asked = admin.questions.map((one) => one.asked);
    assert.deepEqual(asked, ["GET /api/x", "DELETE /api/x"]);
    assert.deepEqual(waits, [10_000, 1]);
  });

  it("at once, as it ends the connection, takes none of the time that further questions have", async () => {
    const waited = vi.spyOn(AbortSignal, "timeout");
    await using admin = await openAdmin((response, { asked }) => {
      if (asked === "GET /api/cut") response.destroy();
      else send(response, 200, { known: 1 });
    });
    const cut = await fetchAdmin(admin.config, { ...PATH, path: "/api/cut", withinMs: 20_000 });
    assert.match(cut.ok ? "" : cut.message, /: the connection ended before its answer/);
    const next = await fetchAdmin(admin.config, { ...PATH, withinMs: 20_000 });
    assert.equal(next.ok, true);
    assert.deepEqual(waited.mock.calls, [[20_000], [20_000]]);
  });
});

describe("the records of a gateway", () => {
  it("are known by their place, and by an id where it has one", async () => {
    for (const [body, status, known] of [
      [{ id: "r1", place: "p" }, 200, { id: "r1", place: "p" }],
      [{ id: null, place: "p" }, 200, { id: null, place: "p" }],
      [{ id: 7, place: "p" }, 200, { id: null, place: "p" }],
      [{ id: "r1" }, 200, undefined],
      [{ id: "r1", place: "p" }, 401, undefined],
      [7, 200, undefined],
    ] as const) {
      await using admin = await openAdmin((response) => send(response, status, body));
      assert.deepEqual(await gatewayRecordsIdentity(admin.config), known, JSON.stringify(body));
    }
    assert.equal(await gatewayRecordsIdentity({ admin: undefined }), undefined);
  });

  it("are read again where it says so, and where none listens", async () => {
    for (const status of [200, 403, 404, 500]) {
      await using admin = await openAdmin((response) => send(response, status, {}));
      const refused = `The gateway at ${admin.origin} answers ${status}. It reads this change by itself: it takes effect within a second`;
      const unread = status === 200 ? undefined : refused;
      assert.equal((await refreshGateway(admin.config)).unread, unread);
    }
    const listen = { host: "127.0.0.1", port: await freePort() };
    assert.deepEqual(await refreshGateway({ admin: { listen, token: "", hosts: [] } }), {});
  });

  it("are not read yet if a process of it has not answered, and an account without limits is told all the same", async () => {
    for (const read of [true, false]) {
      await using admin = await openAdmin((response) => {
        response.setHeader("X-Tollgate-Missing", "worker 2");
        send(response, 200, { ok: read, read, why: "it is gone", withoutLimits: ["acme"] });
      });
      const { unread = "", withoutLimits } = await refreshGateway(admin.config);
      if (!read) assert.equal(unread, "The gateway cannot read this change: it is gone");
      else assert.match(unread, LATER);
      assert.deepEqual(withoutLimits, read ? ["acme"] : undefined);
    }
  });

  it("that cannot be read are told with why, and another program is taken for none", async () => {
    for (const [body, said] of [
      [
        { ok: false, why: "it is gone", read: false },
        "The gateway cannot read this change: it is gone",
      ],
      [{ ok: false, why: "one is damaged", read: true }, undefined],
      ["no object", undefined],
    ] as const) {
      await using admin = await openAdmin((response) => send(response, 200, body));
      assert.equal((await refreshGateway(admin.config)).unread, said);
    }
    await using strange = await openAdmin((response) => response.end("<html>"));
    assert.deepEqual(await refreshGateway(strange.config), {});
  });
});
