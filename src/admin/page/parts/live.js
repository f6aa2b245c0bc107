import { samplesOf, sinceStep } from "./samples.js";
import { setClock } from "./times.js";

/** The plots show the last 15 minutes. */
const SAMPLES_S = 900;
const EVENTS_MAX = 200;
const RETRY_MS = 1_000;
const RETRY_MS_MAX = 10_000;
/** Figures arrive each second. If none arrive for this long, the page says so and reconnects. */
const SILENT_MS = 3_000;
const GIVE_UP_MS = 12_000;
/**
 * After this time a hidden page closes the stream: a browser has six connections to a host, so the
 * streams of six hidden pages would hold up every request of the page that is shown.
 */
const HIDDEN_MS = 5_000;

/**
 * The live figures of the gateway, which /api/events sends each second. They are read with fetch,
 * because an EventSource cannot send the token. `onChange` listeners are called for every figure
 * and for every change of `state`.
 */
export class Live {
  #api;
  #listeners = new Set();
  /** Aborts all reading, and the reading of one stream. */
  #abort;
  #attempt;
  /** The time of the last figures, and of the stream's request, on performance.now(). */
  #heardAtMs = performance.now();
  #askedAtMs = performance.now();
  /** Readings from before the stream, until the first figures arrive. */
  #readings = [];
  /** The state: "connecting", "live", or a message that says what is wrong. */
  state = "connecting";
  figures;
  samples = [];
  /** The last events, the newest first. */
  events = [];

  constructor(api) {
    this.#api = api;
    let timer;
    const follow = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => this.#abort?.abort(), HIDDEN_MS);
      else if (this.#abort?.signal.aborted) void this.run();
    };
    // A page that is opened in the background is hidden from its start, without an event.
    follow();
    document.addEventListener("visibilitychange", follow);
    setInterval(() => this.#listen(), 1_000);
  }

  /** Adds a listener. Returns the function that removes it. */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Adds a listener for the routes: called when they are known, when the gateway is another one, and
   * when another configuration is in force.
   */
  onRoutes(listener) {
    const state = () => [this.#api.routes, this.figures?.config.hash];
    let known = state();
    return this.onChange(() => {
      const now = state();
      if (now.every((one, i) => one === known[i])) return;
      known = now;
      listener();
    });
  }

  /** Reads until the page has been hidden for long, and reconnects after each failure. */
  async run() {
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    if (this.figures !== undefined) this.#say("connecting");
    for (let waitMs = RETRY_MS; !signal.aborted; waitMs = Math.min(waitMs * 2, RETRY_MS_MAX)) {
      this.#attempt = new AbortController();
      this.#askedAtMs = performance.now();
      const either = AbortSignal.any([signal, this.#attempt.signal]);
      try {
        for await (const { event, data } of messages(await this.#api.open("/api/events", either))) {
          waitMs = RETRY_MS;
          this.#take(event, data);
        }
        this.#say("The stream ended: trying again");
      } catch (error) {
        if (!either.aborted) this.#say(error.message);
      }
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }

  /** Detects a gateway that hangs: it keeps its connections open, so only a timer can tell. */
  #listen() {
    const nowMs = performance.now();
    const isSilent = this.state === "live" || this.state.startsWith("No news");
    const silentMs = nowMs - this.#heardAtMs;
    if (!isSilent || silentMs < SILENT_MS) return;
    this.#say(`No news for ${Math.floor(silentMs / 1_000)} s`);
    if (nowMs - Math.max(this.#heardAtMs, this.#askedAtMs) > GIVE_UP_MS) this.#attempt?.abort();
  }

  #take(event, data) {
    if (event === "hello") {
      this.#api.routes = new Set(data.routes);
      this.events = data.happened.toReversed();
      this.#readings = data.readings;
    }
    if (event === "happened" && !(data.number <= this.events[0]?.number)) {
      this.events = [data, ...this.events].slice(0, EVENTS_MAX);
      this.#tell();
    }
    if (event !== "figures") return;
    this.#heardAtMs = performance.now();
    const before = this.figures;
    this.figures = data;
    this.state = "live";
    setClock(data.atMs);
    this.#sample(before, data);
    this.#tell();
  }

  /**
   * Adds a sample of the time since the last figures. From `readings` it adds those of the time
   * before this page was connected.
   */
  #sample(before, figures) {
    // Rates over a step of the gateway's clock are wrong, and samples from before it look later.
    const isBack = before?.atMs > figures.atMs;
    if (isBack) this.samples = [];
    const known = this.samples.at(-1)?.at ?? 0;
    const last = this.#readings.at(-1);
    const since = last !== undefined && (isBack || !(before?.atMs > last.atMs)) ? last : before;
    const line = sinceStep([...this.#readings.slice(0, -1), since, figures].filter(Boolean));
    const fresh = samplesOf(line, figures.durations.bounds).filter(({ at }) => at > known);
    this.#readings = [];
    this.samples.push(...fresh);
    const oldest = figures.atMs / 1_000 - SAMPLES_S;
    while (this.samples[0]?.at < oldest) this.samples.shift();
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

/** Iterates over a stream by hand, because not every browser can. */
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
