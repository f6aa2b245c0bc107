import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { connectionTo, OK, send, startBackend, Told, until } from "./scripted-backend.ts";

describe("the body of a request", () => {
  it("waits for a backend that does not read, and goes on when it does", async () => {
    let received = 0;
    let slow: Socket | undefined;
    await using backend = await startBackend((socket) => {
      slow = socket;
      socket.pause();
      socket.on("data", (chunk: Buffer) => {
        received += chunk.length;
        if (received > 64 * 1_048_576) socket.write(OK);
      });
      socket.pause();
    });
    const connection = connectionTo(backend.port);
    const piece = Buffer.alloc(65_536);
    let left = 1_024;
    let waits = 0;
    const told = new Told();
    told.onEvent = (event, one) => {
      if (event !== "start" && event !== "drain") return;
      while (left > 0) {
        left -= 1;
        if (!one.write(piece)) break;
      }
      waits += 1;
      if (waits === 1) setTimeout(() => slow?.resume(), 50);
      if (left === 0) one.end();
    };
    await send(connection, { method: "PUT", body: 1_024 * 65_536 }, told);
    expect(told.events.at(-1)).toBe("end");
    expect(waits).toBeGreaterThan(2);
    const { events } = told;
    expect(events.lastIndexOf("drain")).toBeLessThan(events.indexOf("sent"));
    connection.close();
  });
});

describe("a body that is not taken", () => {
  it("holds the backend back, and goes on when it is", async () => {
    await using backend = await startBackend((socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
        socket.write(Buffer.alloc(67_108_864));
      });
    });
    const connection = connectionTo(backend.port);
    const told = new Told();
    let isTaken = false;
    told.onEvent = (event, one) => {
      if (event !== "data") return;
      one.pause();
      if (isTaken) one.resume();
    };
    const over = send(connection, {}, told);
    await until(() => told.pieces > 0);
    const { bytes } = told;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(told.bytes).toBe(bytes);
    isTaken = true;
    connection.resume();
    expect((await over).bytes).toBe(67_108_864);
    connection.close();
  });
});
