import assert from "node:assert/strict";
import { it } from "vitest";
import type { ApiRequest } from "../../../src/admin/api/api-request.ts";
import { openEventStream, showOpenApi } from "../../../src/admin/api/gateway-state.ts";
import { RecentEvents } from "../../../src/telemetry/history/recent-events.ts";

it("the stream begins with the routes, with all events that are remembered and with the last figures", () => {
  const recent = new RecentEvents();
  for (const id of ["e1", "e2"]) recent.add({ id } as never);
  const opened: unknown[] = [];
  const events = { open: (hello: unknown) => opened.push(hello) };
  const deps = { events, recent, readings: () => [{ atMs: 1 }, { atMs: 2 }] };
  openEventStream(
    { deps } as unknown as ApiRequest,
    [{ method: "GET", template: "/api/keys/:id" }] as never,
  );
  assert.deepEqual(opened, [
    {
      routes: ["GET /api/keys/:id"],
      happened: recent.since(0),
      readings: [{ atMs: 1 }, { atMs: 2 }],
    },
  ]);
  assert.equal(recent.since(0).length, 2);
});

it("the description has the version of the gateway, and asks for a token where one is set", () => {
  for (const [admin, security] of [
    [{ token: "canary" }, [{ adminToken: [] }]],
    [{ token: "" }, [{}, { adminToken: [] }]],
    [undefined, [{}, { adminToken: [] }]],
  ] as const) {
    const deps = { config: () => ({ admin }), version: "9.8.7" };
    const told = JSON.parse(String(showOpenApi({ deps } as unknown as ApiRequest, []).body));
    assert.deepEqual([told.info.version, told.security], ["9.8.7", security]);
  }
});
