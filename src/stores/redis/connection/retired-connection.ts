import type { Socket } from "node:net";
import type { Redis } from "ioredis";
import handlers from "ioredis/built/redis/event_handler.js";
import { ShortLivedCommand } from "../short-lived-command.ts";
import { silentFailure } from "../store-failure.ts";
import { endConnection, type ReplyTarget, readFor } from "./unasked-replies.ts";

/** Sockets that a client no longer uses, and whose end is no longer an end of its connection. */
const retired = new WeakSet<object>();

for (const name of ["closeHandler", "errorHandler"] as const) {
  const handlerOf = handlers[name] as (redis: Redis) => (error?: unknown) => void;
  const guarded: typeof handlerOf = (redis) => {
    const handle = handlerOf(redis);
    return function whileInUse(this: Socket | undefined, error) {
      if (this === undefined || !retired.has(this)) handle(error);
    };
  };
  Object.assign(handlers, { [name]: guarded });
}

/** Whether a command waits on the connection that may have charged: only a script does. */
export function mayHaveCharged({ commandQueue }: Redis): boolean {
  return commandQueue.toArray().some(({ command }) => command.name.startsWith("eval"));
}

/**
 * A connection that was silent for too long while commands waited. They fail at once, and the client
 * connects again. The socket stays open for `keepMs` at most: a reply that still comes says whether its
 * command ran (StoreFailure.later).
 */
export class RetiredConnection {
  readonly #socket: Socket;
  readonly #waiting: Redis["commandQueue"];
  readonly #timer: NodeJS.Timeout;
  /** The `run_id` of its server, if it tells. */
  readonly runId: string | undefined;

  constructor(redis: Redis, why: Error, keepMs: number, runId?: string) {
    this.runId = runId;
    const { stream, commandQueue } = redis;
    this.#socket = stream as Socket;
    this.#waiting = commandQueue;
    retired.add(stream);
    readFor(redis, this.#target(redis));
    (redis as unknown as { resetCommandQueue(): void }).resetCommandQueue();
    this.#timer = setTimeout(() => this.end(), keepMs);
    this.#socket.on("data", () => {
      if (commandQueue.length === 0) this.end();
    });
    this.#socket.once("close", () => this.end());
    redis.emit("error", why);
    for (const { command } of commandQueue.toArray()) {
      if (command instanceof ShortLivedCommand) command.failBeforeReply(silentFailure);
      else command.reject(silentFailure());
    }
    handlers.closeHandler(redis)();
  }

  get isOver(): boolean {
    return this.#socket.destroyed;
  }

  /** Whether the client is now connected to another address than this one. */
  isElsewhere({ remoteAddress, remotePort }: Socket): boolean {
    return remoteAddress !== this.#socket.remoteAddress || remotePort !== this.#socket.remotePort;
  }

  /** Gives up all replies that have not come. */
  end(): void {
    clearTimeout(this.#timer);
    this.#socket.destroy();
    while (this.#waiting.length > 0) this.#waiting.shift()?.command.reject(silentFailure());
  }

  /** The receiver of the replies of this connection, in place of the client. */
  #target({ stream, commandQueue, condition }: Redis): ReplyTarget {
    return {
      stream,
      commandQueue,
      condition,
      status: "ready",
      handleReconnection: (error, { command }) => command.reject(error),
      recoverFromFatalError: (error) => endConnection(stream, error),
    };
  }
}
