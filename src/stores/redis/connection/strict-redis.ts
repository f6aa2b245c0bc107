import type { Socket } from "node:net";
import { type Command, Redis } from "ioredis";
import type { LinkOptions } from "../link.ts";
import { StoreFailure, toReplyFailure, toStoreFailure } from "../store-failure.ts";
import { DirectConnector } from "./direct-socket.ts";
import { mayHaveCharged, RetiredConnection } from "./retired-connection.ts";
import { SilenceWatch } from "./silence-watch.ts";
import { guardReplies, guardSockets } from "./unasked-replies.ts";

/** The commands with which a connection begins: login and database. */
const GREETING: ReadonlySet<string> = new Set(["auth", "select"]);
/** A server whose reply goes on for ever is not silent, and no command of the greeting has a deadline. */
const GREETING_MS_MAX = 2_000;
/**
 * A server that takes no further client may reset a connection before its refusal is read, but not
 * this many in a row.
 */
const UNREFUSED_MAX = 5;
/** Longer than any command may take: the longest reads all keys, in ten seconds at most. */
const REPLY_MS_MAX = 12_000;
/** How many silent connections to a server are still read, at most. */
const RETIRED_MAX = 2;

/**
 * A client that does not use a connection if a step of its greeting failed. ioredis by default goes
 * on: on database 0 if SELECT was refused, and without a login if the server asks for none.
 */
export class StrictRedis extends Redis {
  #refused: StoreFailure | undefined;
  /** Connections in a row that ended without a refusal. */
  #unrefused = 0;
  readonly #silence: SilenceWatch | undefined;
  /** The oldest first. */
  #retired: RetiredConnection[] = [];
  /** The `run_id` of the server of the present connection, if it tells. */
  #runId: string | undefined;

  constructor({ socketTimeout, ...options }: LinkOptions) {
    const isDirect = options.tls === undefined && options.Connector === undefined;
    super(isDirect ? { ...options, Connector: DirectConnector } : options);
    if (socketTimeout !== undefined) {
      const bounds = { silenceMs: socketTimeout, replyMs: REPLY_MS_MAX };
      const first = () => this.commandQueue.peekFront();
      this.#silence = new SilenceWatch(bounds, first, (socket, why) => this.#retire(socket, why));
    }
    this.on("error", (error: NodeJS.ErrnoException) => {
      // The server can no longer even be reached.
      const isReset = error.code === "ECONNRESET";
      if (error.syscall !== undefined && !isReset) this.#refused = undefined;
    });
    this.on("ready", () => {
      this.#refused = undefined;
    });
    this.on("connect", () => {
      // The units that another server has charged are not those of this one.
      this.#endRetired((each) => each.isElsewhere(this.stream as Socket));
    });
    this.on("close", () => {
      this.#unrefused += 1;
      if (this.#unrefused >= UNREFUSED_MAX) this.#refused = undefined;
    });
    this.#boundGreeting();
    guardReplies(this);
    guardSockets(this);
  }

  /** Why there is no connection, if the server refused one of the last greetings. */
  get refused(): StoreFailure | undefined {
    return this.#refused;
  }

  #refuse(failure: StoreFailure): void {
    this.#refused = failure;
    // This connection ends, too.
    this.#unrefused = -1;
  }

  override sendCommand(command: Command, stream?: Parameters<Redis["sendCommand"]>[1]): unknown {
    if (this.status === "connect" && GREETING.has(command.name)) this.#judge(command);
    if (this.status === "connect" && command.name === "info") this.#judgeInfo(command);
    const reply = super.sendCommand(command, stream);
    if (this.commandQueue.length > 0) this.#silence?.begin(this.stream);
    return reply;
  }

  /** Ends the replies of earlier connections too. */
  override disconnect(reconnect = false): void {
    this.#endRetired(() => true);
    super.disconnect(reconnect);
  }

  #endRetired(isOver: (each: RetiredConnection) => boolean): void {
    for (const each of this.#retired) if (isOver(each)) each.end();
  }

  #retire(socket: Socket, why: Error): void {
    if (!mayHaveCharged(this)) {
      socket.destroy(why);
      return;
    }
    this.#retired = this.#retired.filter(({ isOver }) => !isOver);
    if (this.#retired.length >= RETIRED_MAX) this.#retired.shift()?.end();
    this.#retired.push(new RetiredConnection(this, why, REPLY_MS_MAX, this.#runId));
  }

  #boundGreeting(): void {
    let timer: NodeJS.Timeout | undefined;
    const giveUp = () => this.stream.destroy(new Error("its greeting does not end"));
    this.on("connect", () => {
      timer = setTimeout(giveUp, GREETING_MS_MAX).unref();
    });
    for (const end of ["ready", "close"]) this.on(end, () => clearTimeout(timer));
  }

  /** ioredis reads the text of the error, and ignores some, so it gets one from here. */
  #judge(command: Command): void {
    const { reject } = command;
    command.reject = (error: Error) => {
      if (error.name !== "ReplyError") return reject(error);
      const { code, message } = toStoreFailure(error);
      const failure = new StoreFailure(code, message, "no");
      this.#refuse(failure);
      reject(failure);
      this.disconnect(true);
    };
  }

  /**
   * While Redis loads its data, ioredis asks on without a word, and is neither connected nor not. A
   * user without the right to INFO cannot be told whether Redis has. ioredis goes on as if it had, and
   * says so on stderr at each connection; this does so without a word.
   */
  #judgeInfo(command: Command): void {
    const { resolve, reject } = command;
    command.resolve = (info) => {
      if (!/^loading:1/m.test(String(info))) {
        this.#runId = /^run_id:(\w+)/m.exec(String(info))?.[1];
        // A name or a balancer may lead to another server now, as after a failover.
        this.#endRetired(({ runId }) => runId !== this.#runId);
        return resolve(info);
      }
      const failure = toReplyFailure("LOADING");
      this.#refuse(failure);
      reject(failure);
    };
    command.reject = (error: Error) => {
      const { code, message } = toStoreFailure(error);
      if (code === "NOPERM") return resolve("");
      if (error.name === "ReplyError") this.#refuse(new StoreFailure(code, message, "no"));
      reject(error);
    };
  }
}
