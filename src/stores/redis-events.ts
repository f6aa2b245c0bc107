import { orLate, type StoreFailure, translate } from "./redis-failure.ts";
import type { Link } from "./redis-link.ts";

/** What is known of an account is out of date; without one, all that is known. */
export type Forget = (id: string | undefined) => void;

export type Events = {
  /** Tells every gateway, this one too. Rejects when the store cannot be reached. */
  publish(id: string | undefined): Promise<void>;
  close(): void;
};

export type EventsOptions = {
  readonly link: Link;
  readonly prefix: string;
  readonly forget: Forget;
  /** Each second, how the store answered: undefined when it did. */
  readonly probed: (failure: StoreFailure | undefined) => void;
};

const POLL_MS = 1_000;
const ADMIN_LATE_MS = 2_000;

/**
 * Changes that gateways must hear of: a ban earned or lifted, a changed key. Each has a number,
 * counted in the store, and is published with it. Once a second the number is read: whoever missed
 * one (no subscription, or one that hangs) forgets all that it knows, and subscribes anew.
 */
export function createEvents({ link, prefix, forget, probed }: EventsOptions): Events {
  const channel = `${prefix}:events`;
  const versionKey = `${prefix}:{0}:version`;
  let seen: number | undefined;
  let missed: number | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const subscription = link.subscribe(channel, {
    message: (text) => {
      const found = /^(\d+) (.*)$/s.exec(text);
      if (found === null) return;
      const version = Number(found[1]);
      // Behind a gap there was something else: what, is not known.
      const gap = seen !== undefined && version > seen + 1;
      seen = Math.max(seen ?? 0, version);
      if (missed !== undefined && version >= missed) missed = undefined;
      forget(gap || found[2] === "*" ? undefined : found[2]);
    },
    up: () => void poll(),
    down: () => undefined,
  });

  async function poll(): Promise<void> {
    try {
      const text = await orLate(link.send(versionKey, "get", [versionKey]), POLL_MS);
      const version = Number(text ?? 0);
      if (missed !== undefined) subscription.restart();
      missed = undefined;
      // A smaller number is of a store that was emptied: what was known of it holds until its time.
      if (seen !== undefined && version > seen) {
        missed = version;
        forget(undefined);
      }
      seen = version;
      probed(undefined);
    } catch (error) {
      probed(translate(error));
    }
  }

  function next(): void {
    if (closed) return;
    timer = setTimeout(() => void poll().finally(next), POLL_MS).unref();
  }
  void link.tried.then(poll).finally(next);

  return {
    publish: async (id) => {
      const version = await orLate(link.send(versionKey, "incr", [versionKey]), ADMIN_LATE_MS);
      const text = `${version} ${id ?? "*"}`;
      await orLate(link.send(versionKey, "publish", [channel, text]), ADMIN_LATE_MS);
    },
    close: () => {
      closed = true;
      clearTimeout(timer);
    },
  };
}
