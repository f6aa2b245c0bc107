import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { sendRaw } from "../support/wire/raw.ts";

test("a request that is refused before its host is read counts for the listener's one environment", async () => {
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({ upstreams: [backend.origin] });
  const { bytes } = await sendRaw(served.port, "GET /v1/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
  assert.match(bytes.toString(), /^HTTP\/1\.1 400 /);
  const [entry] = await eventually(() =>
    served.lines.length === 1 ? served.lines : assert.fail("no line"),
  );
  assert.equal(entry?.env, "production");
  const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
  assert.match(metrics, /^tollgate_http_requests_total\{env="production",.*code="400".*\} 1$/m);
  assert.doesNotMatch(metrics, /env="none"/);
});

test("connections that are limited by open files are told once, not by every environment", async () => {
  const environment = (keyTag: string) => ({
    ...{ listen: "127.0.0.1:0", basePath: "/v1", keyTag, upstreams: ["http://127.0.0.1:9"] },
  });
  const environments = { production: environment("live"), staging: environment("test") };
  const under = ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh"];
  await using served = await spawnGateway({ upstreams: [], under, config: { environments } });
  const told = () => served.said.filter(({ msg }) => msg === "connections_limited");
  await eventually(() => assert.equal(told().length, 1));
  await delay(500);
  assert.equal(told().length, 1);
  await keepsTwelve(served.adminUrl);
});

/** The admin listener has a twentieth of 256 files: of 20 connections the last twelve stay. */
async function keepsTwelve(adminUrl: string): Promise<void> {
  const port = Number(new URL(adminUrl).port);
  const sockets: Socket[] = [];
  for (let i = 0; i < 20; i++) {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    await once(socket, "connect");
    sockets.push(socket.resume());
  }
  const [left, kept] = [sockets.slice(0, 8), sockets.slice(8)];
  await eventually(() => assert.equal(left.filter(({ closed }) => closed).length, 8));
  for (const socket of kept) {
    socket.write("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
    assert.match(String((await once(socket, "data"))[0]), /^HTTP\/1\.1 200 /);
  }
  for (const socket of kept) socket.destroy();
}
