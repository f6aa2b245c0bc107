import { connect } from "node:net";
import { parentPort, workerData } from "node:worker_threads";

/**
 * A client beside the test, in a thread of its own: while it is told to, it sends requests at a fixed
 * rate, each over a new connection: with wrong keys, or such that need none.
 */
const { port, perSecond } = workerData as { port: number; perSecond: number };
const REQUESTS = {
  wrong:
    "GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer pets_live_wrong0wrong0wrong\r\n\r\n",
  open: "OPTIONS * HTTP/1.1\r\nHost: gw.test\r\nConnection: close\r\n\r\n",
};
const EACH_MS = 10;
let request: string | undefined;
let due = 0;
let answered = 0;

parentPort?.on("message", (message: keyof typeof REQUESTS | "stop" | "end") => {
  request = message === "wrong" || message === "open" ? REQUESTS[message] : undefined;
  if (message === "stop") parentPort?.postMessage(answered);
  if (message === "end") process.exit(0);
});

setInterval(() => {
  const text = request;
  if (text === undefined) return;
  due += (perSecond * EACH_MS) / 1_000;
  for (; due >= 1; due--) {
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.on("error", () => undefined);
    socket.once("data", () => {
      answered += 1;
      socket.destroy();
    });
  }
}, EACH_MS);
