import { Redis } from "ioredis";
import { guardReplies, guardSockets } from "../connection/unasked-replies.ts";
import type { LinkOptions } from "../link.ts";
import { toStoreFailure } from "../store-failure.ts";

/** With what an address logs in; a Sentinel has users of its own. */
export type SentinelLogin = {
  readonly username?: string | undefined;
  readonly password?: string | undefined;
};

type Login = (...as: string[]) => Promise<"OK">;

/**
 * A connection to a Sentinel. Logs in as the default user, for whom a Sentinel without a password
 * accepts any, and if that is refused, as the user of the address (docs/operations.md#sentinel).
 */
export class SentinelClient extends Redis {
  constructor(link: LinkOptions, { username, password }: SentinelLogin) {
    const { username: _, password: __, ...rest } = link;
    const first = password === undefined ? {} : { username: "default", password };
    super({ ...rest, ...first, enableReadyCheck: false });
    guardReplies(this);
    guardSockets(this);
    if (username === undefined || password === undefined) return;
    const login = Redis.prototype.auth as unknown as Login;
    const asUser = (error: unknown) => {
      if (toStoreFailure(error).code !== "WRONGPASS") throw error;
      return login.call(this, username, password);
    };
    const either: Login = (...as) => login.apply(this, as).catch(asUser);
    this.auth = either as unknown as Redis["auth"];
  }
}
