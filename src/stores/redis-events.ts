import { randomUUID } from "node:crypto";
import { orLate, type StoreFailure, translate } from "./redis-failure.ts";
import { PUBLISH } from "./redis-script.ts";
import type { SharedStore } from "./redis-shared.ts";

/** What is known of an account is out of date; without one, all that is known. */
export type Forget = (id: string | undefined) => void;

export type Events = {
  /** Tells all other gateways at once. Rejects when the store cannot be reached. */
  publish(id: string): Promise<void>;
  /** Tells them soon: at once, or together with others where there are many. */
  tell(id: string): void;
  close(): void;
};

export type EventsOptions = {
  readonly shared: SharedStore;
  readonly prefix: string;
  readonly forget: Forget;
  /** Each second, how the store answered: undefined when it did. */
  readonly probed: (failure: StoreFailure | undefined) => void;
};

const POLL_MS = 1_000;
const ADMIN_LATE_MS = 2_000;
/** Between two messages about bans: a flood that earns thousands costs two commands a second. */
const TELL_PAUSE_MS = 500;
/** One message names so many accounts; where there are more it says "all". */
const TOLD_MAX = 500;

/**
 * Changes that gateways must hear of: a ban earned or lifted, a changed key. Each has a number,
 * counted in the store, and is published with it. Once a second the number is read: whoever missed
 * one (no subscription, or one that hangs) forgets all that it knows, and subscribes anew.
 */
export function createEvents({ shared, prefix, forget, probed }: EventsOptions): Events {
  const { link } = shared;
  const origin = randomUUID();
  const channel = `${prefix}:events`;
  const versionKey = `${prefix}:{0}:version`;
  let seen: number | undefined;
  let missed: number | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const subscription = link.subscribe(channel, {
    message: (text) => {
      const [number, from, ...ids] = text.split(" ");
      const version = Number(number);
      if (!Number.isSafeInteger(version) || ids.length === 0) return;
      // Behind a gap there was something else: what, is not known.
      const gap = seen !== undefined && version > seen + 1;
      seen = Math.max(seen ?? 0, version);
      if (missed !== undefined && version >= missed) missed = undefined;
      if (gap || (ids[0] === "*" && from !== origin)) forget(undefined);
      else if (from !== origin) for (const id of ids) forget(id);
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

  const told = new Set<string>();
  let telling: NodeJS.Timeout | undefined;

  async function send(what: string): Promise<void> {
    const run = shared.run(PUBLISH, versionKey, [channel, `${origin} ${what}`]);
    await orLate(run, ADMIN_LATE_MS);
  }

  /** What was told while it waited goes when the pause is over. */
  function tellNow(): void {
    telling = undefined;
    if (told.size === 0) return;
    const what = told.size > TOLD_MAX ? "*" : [...told].join(" ");
    told.clear();
    telling = setTimeout(tellNow, TELL_PAUSE_MS).unref();
    // Whoever misses it learns from the store, at the account's next strike at the latest.
    send(what).catch(() => undefined);
  }

  return {
    publish: send,
    tell: (id) => {
      told.add(id);
      if (telling === undefined) tellNow();
    },
    close: () => {
      closed = true;
      clearTimeout(timer);
      clearTimeout(telling);
    },
  };
}
