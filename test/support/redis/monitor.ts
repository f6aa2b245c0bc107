import assert from "node:assert/strict";
import { connect } from "node:net";
import { eventually } from "../poll.ts";

/** A command as MONITOR tells it. `source` is the address of its client, or `lua`. */
export type Monitored = {
  readonly seconds: number;
  readonly args: readonly string[];
  readonly source: string;
};

/**
 * Calls `take` with each command that the server runs from now on. The monitor of ioredis takes a
 * command that arrives together with the reply to MONITOR for a reply to nothing: its second error is
 * heard by nobody, and ends the run.
 */
export async function monitorRedis(
  port: number,
  take: (command: Monitored) => void,
): Promise<Disposable> {
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  let [first, rest] = ["", ""];
  socket.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\r\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      first ||= line;
      const [, seconds, source, args] = /^\+(\d[\d.]*) \[\d+ (\S+)\] "(.*)"$/.exec(line) ?? [];
      if (source === undefined) continue;
      take({ seconds: Number(seconds), source, args: String(args).split('" "') });
    }
  });
  socket.write("MONITOR\r\n");
  await eventually(() => assert.equal(first, "+OK"));
  return { [Symbol.dispose]: () => socket.destroy() };
}
