import { setClock } from "./format.js";

/** Five minutes of samples, one a second. */
const SAMPLES_MAX = 300;
const EVENTS_MAX = 200;
const RETRY_MS = 1_000;
const RETRY_MS_MAX = 10_000;
/** A hidden page closes the stream. */
const HIDDEN_MS = 60_000;

/**
 * The live figures of the gateway, as /api/events sends them each second. Read with fetch, since an
 * EventSource cannot send the token. `onChange` hears of every figure and of every change of `state`.
 */
export class Live {
  #api;
  #listeners = new Set();
  #abort;
  /** "connecting", "live", or the words of what is wrong. */
  state = "connecting";
  figures;
  samples = [];
  /** The last events, the newest first. */
  events = [];

  constructor(api) {
    this.#api = api;
    let timer;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => this.#abort?.abort(), HIDDEN_MS);
      else if (this.#abort?.signal.aborted) void this.run();
    });
  }

  /** Gives the function that ends the subscription. */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Hears of the routes that the gateway has, once they are known and when it is another gateway. */
  onRoutes(listener) {
    let known = this.#api.routes;
    return this.onChange(() => {
      if (this.#api.routes === known) return;
      known = this.#api.routes;
      listener();
    });
  }

  /** Reads until the page is hidden for long, and comes back by itself after each failure. */
  async run() {
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    for (let waitMs = RETRY_MS; !signal.aborted; waitMs = Math.min(waitMs * 2, RETRY_MS_MAX)) {
      try {
        for await (const { event, data } of messages(await this.#api.open("/api/events", signal))) {
          waitMs = RETRY_MS;
          this.#take(event, data);
        }
        this.#say("The stream ended: trying again");
      } catch (error) {
        if (signal.aborted) return;
        this.#say(error.message);
      }
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }

  #take(event, data) {
    if (event === "hello") {
      this.#api.routes = new Set(data.routes);
      this.events = data.happened.toReversed();
    }
    if (event === "happened" && !(data.number <= this.events[0]?.number)) {
      this.events = [data, ...this.events].slice(0, EVENTS_MAX);
      this.#tell();
    }
    if (event !== "figures") return;
    const before = this.figures;
    this.figures = data;
    this.state = "live";
    setClock(data.atMs);
    const sample = before && sampleOf(before, data);
    if (sample) this.samples.push(sample);
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
    this.#tell();
  }

  #say(state) {
    this.state = state;
    this.#tell();
  }

  #tell() {
    for (const listener of this.#listeners) listener(this);
  }
}

/** The messages of a stream of server-sent events, their data parsed. */
async function* messages(response) {
  let text = "";
  for await (const piece of pieces(response.body.pipeThrough(new TextDecoderStream()))) {
    text += piece;
    for (let end = text.indexOf("\n\n"); end !== -1; end = text.indexOf("\n\n")) {
      const fields = Object.fromEntries(
        text
          .slice(0, end)
          .split("\n")
          .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
      );
      text = text.slice(end + 2);
      yield { event: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

/** Not every browser iterates over a stream. */
async function* pieces(stream) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

/** The rates between two readings; undefined if the gateway restarted in between. */
export function sampleOf(before, now) {
  const seconds = (now.atMs - before.atMs) / 1_000;
  const total = (numbers) => Object.values(numbers).reduce((sum, value) => sum + value, 0);
  if (seconds < 0.2 || total(now.answered) < total(before.answered)) return undefined;
  const rate = (part, chosen) =>
    Object.entries(now[part])
      .filter(([status]) => chosen(Number(status)))
      .reduce((sum, [status, value]) => sum + value - (before[part][status] ?? 0), 0) / seconds;
  return {
    at: now.atMs / 1_000,
    requests: rate("answered", () => true),
    failed: rate("answered", (status) => status >= 500),
    refused: rate("ownAnswers", (status) => status >= 400),
    limited: rate("ownAnswers", (status) => status === 429),
    strangers: rate("ownAnswers", (status) => status === 401 || status === 403),
    imposed: (now.bans.imposed - before.bans.imposed) / seconds,
    banned: now.bans.inForce,
    inFlight: now.inFlight,
    ...latencies(before.durations, now.durations),
  };
}

/** In milliseconds: the mean, and the bucket's bound under which 95 and 99 of 100 requests were. */
function latencies(before, now) {
  const counts = now.counts.map((value, i) => value - before.counts[i]);
  const all = counts.reduce((sum, value) => sum + value, 0);
  if (all <= 0) return { mean: null, p95: null, p99: null };
  const under = (share) => {
    let below = 0;
    const i = counts.findIndex((value) => {
      below += value;
      return below >= share * all;
    });
    return i < now.bounds.length ? now.bounds[i] * 1_000 : Number.POSITIVE_INFINITY;
  };
  return { mean: ((now.sum - before.sum) / all) * 1_000, p95: under(0.95), p99: under(0.99) };
}
