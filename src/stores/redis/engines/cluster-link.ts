import type { HostPort } from "../../../core/address.ts";
import { sendProven } from "../connection/proven-reply.ts";
import { keyBucket } from "../hash-slots.ts";
import {
  type Link,
  type LinkOptions,
  type RedisArgument,
  type RedisNode,
  type ReplyReader,
  sendOn,
} from "../link.ts";
import { redirection, toCommandFailure } from "../store-failure.ts";
import { addressOf, ClusterMap, whenReady } from "./cluster-map.ts";

const REDIRECTIONS_MAX = 5;
const CONNECTING: ReadonlySet<string> = new Set(["wait", "connecting", "connect"]);

/**
 * Redis Cluster, as far as sixteen buckets need one. Written here because the Cluster of ioredis
 * sends a script again if the connection was lost during it, which charges twice, and waits 100 ms
 * on TRYAGAIN. This link sends a command again only if it was certainly not executed: on MOVED and
 * ASK.
 */
export function createClusterLink(seeds: readonly HostPort[], options: LinkOptions): Link {
  const map = new ClusterMap(seeds, options);
  const tried = map.refresh().then(() => map.connected());
  return {
    clustered: true,
    send: (key, ...command) => send(map, keyBucket(key), ...command),
    masters: async () => {
      await map.refresh();
      return map.parts().map((part): RedisNode => {
        const send: RedisNode["send"] = async (name, args) => {
          const bucket = part.buckets[0] as number;
          const node = map.owner(bucket);
          if (node === undefined) throw map.unowned(bucket);
          return sendProven(node, name, args).catch((error) => {
            return Promise.reject(toCommandFailure(error, map.whyNot(node)));
          });
        };
        return { part, send };
      });
    },
    partOf: (bucket) => map.parts().find(({ buckets }) => buckets.includes(bucket)),
    nodeOf: (bucket) => map.owner(bucket) ?? map,
    // A node of a Cluster hands over all its data when it is replaced in a planned failover.
    master: async () => "",
    split: () => undefined,
    subscribe: (channel, subscriber) => map.subscribe(channel, subscriber),
    health: (bucket) => map.health(bucket),
    tried,
    close: async () => map.close(),
  };
}

async function send(
  map: ClusterMap,
  bucket: number,
  name: string,
  args: readonly RedisArgument[],
  read?: ReplyReader,
) {
  let node = map.owner(bucket);
  let asking = false;
  for (let redirections = 0; ; redirections++) {
    if (node === undefined) {
      map.refreshSoon();
      throw map.unowned(bucket);
    }
    try {
      // A node that was just learned of is connecting. After a lost connection there is nothing to
      // wait for.
      if (CONNECTING.has(node.status)) await whenReady(node);
      // On one connection, in one tick, so that no other command comes between the two.
      if (asking) sendOn(node, "asking", []).catch(() => undefined);
      return await sendProven(node, name, args, read);
    } catch (error) {
      const failure = toCommandFailure(error, map.whyNot(node));
      const to = redirection(error);
      if (to === undefined || redirections >= REDIRECTIONS_MAX) {
        if (failure.code === "unreachable" || failure.code === "CLUSTERDOWN") map.refreshSoon();
        throw failure.at(`bucket ${bucket} at ${addressOf(node)}`);
      }
      asking = to.kind === "ASK";
      node = await map.nodeAt(to.at, node);
      if (!asking) map.moved(bucket, node);
    }
  }
}
