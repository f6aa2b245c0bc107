import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";

const CHUNKS = 262_144;
/** Sends chunks of one byte from a process of its own, and ends with the first bytes of an answer. */
const CLIENT = `
const [port, key] = process.argv.slice(1);
const socket = require("node:net").connect(Number(port), "127.0.0.1");
const credentials = key ? "Authorization: Bearer " + key + "\\r\\n" : "";
socket.write("POST /v1/pets HTTP/1.1\\r\\nHost: gw.test\\r\\n" + credentials +
  "Content-Type: application/json\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n");
socket.write("1\\r\\na\\r\\n".repeat(${CHUNKS}) + "0\\r\\n\\r\\n");
socket.on("error", () => {}).on("close", () => process.exit(0));
socket.once("data", () => setTimeout(() => process.exit(0), 100));
`;

/** Milliseconds of CPU of this process, which serves, for one such request. */
async function cpuMs(port: number, key = ""): Promise<number> {
  const before = process.cpuUsage();
  const client = spawn(process.execPath, ["-e", CLIENT, String(port), key]);
  await new Promise((resolve) => client.once("exit", resolve));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

test("a body in one-byte chunks costs at most 1.5 times a bare node:http that reads it, without a key half of that", async (t) => {
  const bare = createServer((request, response) => {
    request.resume().on("end", () => response.end("ok"));
  });
  await new Promise<void>((resolve) => bare.listen(0, "127.0.0.1", resolve));
  t.onTestFinished(() => {
    bare.closeAllConnections();
    bare.close();
  });
  await using house = await startTestGateway();
  const { key } = await house.issue({ plan: "business" });
  const { port } = bare.address() as AddressInfo;
  const best = async (run: () => Promise<number>) => {
    const ms = [await run(), await run(), await run()];
    return Math.min(...ms);
  };
  const [plain, withKey, without] = [
    await best(() => cpuMs(port)),
    await best(() => cpuMs(house.port, key)),
    await best(() => cpuMs(house.port)),
  ];
  const told = `${Math.round(plain)} ms bare, ${Math.round(withKey)} with a key, ${Math.round(without)} without`;
  t.annotate(told);
  assert.ok(withKey <= 1.5 * plain, told);
  assert.ok(without <= 0.75 * plain, told);
  assert.equal(house.backend.seen.at(-1)?.body.length, CHUNKS);
  await house.law();
});
