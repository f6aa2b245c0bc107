import { connect } from "node:net";

/** Resolves once something takes a connection on the port; rejects if nothing does. */
export function reach(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", reject).once("connect", () => {
      socket.destroy();
      resolve();
    });
  });
}
