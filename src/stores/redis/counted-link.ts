import type { Link } from "./link.ts";

/** A link that counts the commands of one store. */
export class CountedLink implements Link {
  readonly #link: Link;
  readonly clustered: boolean;
  readonly tried: Promise<void>;
  sent = 0;

  constructor(link: Link) {
    this.#link = link;
    this.clustered = link.clustered;
    this.tried = link.tried;
  }

  send: Link["send"] = (key, name, args) => {
    this.sent += 1;
    return this.#link.send(key, name, args);
  };
  masters: Link["masters"] = () => this.#link.masters();
  subscribe: Link["subscribe"] = (channel, subscriber) => this.#link.subscribe(channel, subscriber);
  health: Link["health"] = () => this.#link.health();
  close: Link["close"] = () => this.#link.close();
}
