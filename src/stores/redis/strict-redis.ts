import { type Command, Redis } from "ioredis";
import type { LinkOptions } from "./link.ts";
import { StoreFailure, toStoreFailure } from "./store-failure.ts";

/** The commands with which a connection begins: who it is, and which database. */
const GREETING: ReadonlySet<string> = new Set(["auth", "select"]);

/**
 * A client whose connection is none where a step of its greeting failed. By itself ioredis goes on: on
 * database 0 where SELECT was refused, and without a login where the server asks for none.
 */
export class StrictRedis extends Redis {
  #refused: StoreFailure | undefined;

  constructor(options: LinkOptions) {
    super(options);
    this.on("error", (error: NodeJS.ErrnoException) => {
      // The server is not even reached any more.
      if (error.syscall !== undefined) this.#refused = undefined;
    });
    this.on("ready", () => {
      this.#refused = undefined;
    });
  }

  /** Why there is no connection, if it is for what the server said to the last greeting. */
  get refused(): StoreFailure | undefined {
    return this.#refused;
  }

  override sendCommand(command: Command, stream?: Parameters<Redis["sendCommand"]>[1]): unknown {
    if (this.status === "connect" && GREETING.has(command.name)) this.#judge(command);
    return super.sendCommand(command, stream);
  }

  /** ioredis reads the words of the error, and forgives some of them: it gets ours. */
  #judge(command: Command): void {
    const { reject } = command;
    command.reject = (error: Error) => {
      if (error.name !== "ReplyError") return reject(error);
      const { code, message } = toStoreFailure(error);
      this.#refused = new StoreFailure(code, message, "no");
      reject(this.#refused);
      this.disconnect(true);
    };
  }
}
