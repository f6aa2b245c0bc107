import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Command, Redis } from "ioredis";
import handler from "ioredis/built/DataHandler.js";
import { ENDED_UNANSWERED, NO_TLS } from "../store-failure.ts";

/** The part of the client library that gives each reply to the command that waits longest. */
type ReplyReader = {
  redis: Redis;
  dispatch(give: () => void): void;
  shiftCommand(reply: unknown): unknown;
};

/** A receiver of the replies of one connection: a client, or the queue of a retired connection. */
export type ReplyTarget = Pick<Redis, "stream" | "commandQueue" | "condition" | "status"> & {
  handleReconnection(error: Error, waiting: { readonly command: Command }): void;
  recoverFromFatalError(error: Error): void;
};

/** The clients whose connection ends with a reply that no command waits for. */
const guarded = new WeakSet<Redis>();
/** The reader of the present connection of each client. */
const readers = new WeakMap<Redis, ReplyReader>();
const reader = handler.default.prototype as unknown as ReplyReader;
const { dispatch, shiftCommand } = reader;

/**
 * ioredis goes on after a reply that no command waits for, though the next one may be unasked too, and
 * then each command gets the reply of another. And a reply of a shape that it does not expect there,
 * such as a null, ends the process.
 */
export function guardReplies(redis: Redis): void {
  guarded.add(redis);
}

/** Gives the replies of the client's present connection to `target` from now on. */
export function readFor(redis: Redis, target: ReplyTarget): void {
  const reader = readers.get(redis);
  if (reader === undefined) return;
  reader.redis = target as unknown as Redis;
  guarded.add(reader.redis);
}

type Connector = { connect(tell: unknown): Promise<Socket> };

/**
 * ioredis listens for one error of a socket, and a second one would end the process: that of a TLS
 * handshake in which the connection was closed. A plain Redis waits for the end of a handshake for
 * ever, so that it would read as a network that is slow. A server that speaks TLS ends or resets a
 * plain connection without a reply; so does any other that replied before, but not for that reason.
 */
export function guardSockets(redis: Redis): void {
  const { connector } = redis as unknown as { readonly connector: Connector };
  const connect = connector.connect.bind(connector);
  let hasReplied = false;
  connector.connect = async (tell) => {
    const socket = await connect(tell);
    socket.once("timeout", () => {
      const isInHandshake = socket instanceof TLSSocket && !socket.connecting;
      if (isInHandshake) socket.destroy(new Error(NO_TLS));
    });
    const isUnanswered = () => {
      hasReplied ||= socket.bytesRead > 0;
      return !hasReplied && !(socket instanceof TLSSocket);
    };
    socket.once("end", () => {
      if (isUnanswered()) socket.destroy(new Error(ENDED_UNANSWERED));
    });
    socket.once("close", isUnanswered);
    return socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNRESET" && isUnanswered()) error.message = ENDED_UNANSWERED;
    });
  };
}

reader.dispatch = function guardedDispatch(this: ReplyReader, give) {
  if (!guarded.has(this.redis)) return dispatch.call(this, give);
  // A connection is ready only after the replies to its greeting.
  if (this.redis.status === "connect") readers.set(this.redis, this);
  try {
    give();
  } catch {
    endConnection(this.redis.stream);
  }
};

reader.shiftCommand = function guardedShift(this: ReplyReader, reply) {
  if (!guarded.has(this.redis) || this.redis.commandQueue.length > 0) {
    return shiftCommand.call(this, reply);
  }
  // A server that takes no more clients says so unasked.
  endConnection(this.redis.stream, reply instanceof Error ? reply : undefined);
  return null;
};

/** Ends a connection on which replies do not belong to the commands. The next one begins in step. */
export function endConnection(
  stream: Redis["stream"],
  why = new Error("its replies do not belong to the commands"),
): void {
  stream.destroy(why);
}
