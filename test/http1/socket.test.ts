import { once } from "node:events";
import { createServer as createTlsServer } from "node:tls";
import { describe, expect, it } from "vitest";
import { openSocket } from "../../src/http1/client/socket.ts";
import { openAuthority } from "../support/wire/certificates.ts";
import { connectionTo, OK, send, startBackend, Told } from "./scripted-backend.ts";

describe("a socket", () => {
  it("says why it closed, by a code where there is one", async () => {
    await using backend = await startBackend(() => undefined);
    const closed = (error?: Error) =>
      new Promise<string>((resolve) => {
        const ignore = () => undefined;
        openSocket(
          { host: "127.0.0.1", port: backend.port, tls: undefined },
          {
            onConnect: (socket) => socket.destroy(error),
            onRead: ignore,
            onDrain: ignore,
            onEnd: ignore,
            onClose: (_socket, why) => resolve(why),
          },
        );
      });
    expect(await closed()).toBe("closed");
    expect(await closed(new RangeError("odd"))).toBe("RangeError");
    expect(await closed(Object.assign(new Error("odd"), { code: "EODD" }))).toBe("EODD");
  });

  it("sends a small piece at once, whether or not the one before it was acknowledged", async () => {
    const tookMs: number[] = [];
    let firstMs: number | undefined;
    let received = "";
    await using backend = await startBackend((socket) => {
      socket.on("data", (chunk: Buffer) => {
        firstMs ??= performance.now();
        received += chunk.toString("latin1");
        if (!received.endsWith("0\r\n\r\n")) return;
        tookMs.push(performance.now() - firstMs);
        firstMs = undefined;
        received = "";
        socket.write(OK);
      });
    });
    const connection = connectionTo(backend.port);
    for (let i = 0; i < 10; i++) {
      const told = new Told();
      told.onEvent = (event, one) => {
        if (event !== "start") return;
        one.write(Buffer.from("abc"));
        one.end();
      };
      await send(connection, { method: "PUT", body: "chunked" }, told);
    }
    connection.close();
    // A system acknowledges the first bytes of a connection at once, and later ones after 40 ms or
    // with its answer. The fastest of the others counts, since any one may be held up by something.
    expect(Math.min(...tookMs.slice(1))).toBeLessThan(20);
  });
});

describe("over TLS", () => {
  it("reads what was sent, and holds it back, as over a plain connection", async () => {
    using authority = openAuthority();
    const { ca } = authority;
    const server = createTlsServer(authority.issue(["DNS:backend.test"]), (socket) => {
      socket.on("error", () => {});
      socket.on("data", () => {
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n");
        socket.write(Buffer.alloc(1_048_576));
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const connection = connectionTo(0, {
      destination: { host: "127.0.0.1", port, tls: { ca, servername: "backend.test" } },
    });
    const told = new Told();
    told.onEvent = (event, one) => {
      if (event !== "data") return;
      one.pause();
      setTimeout(() => one.resume(), 1);
    };
    expect((await send(connection, {}, told)).bytes).toBe(1_048_576);
    expect((await send(connection)).reused).toBe(true);
    connection.close();
    const stranger = connectionTo(0, { destination: { host: "127.0.0.1", port, tls: {} } });
    const { failure } = await send(stranger);
    expect([failure?.kind, failure?.sent]).toEqual(["unreached", false]);
    expect(failure?.why).toMatch(/SELF_SIGNED|UNABLE_TO|CERT/);
    server.close();
  });
});
