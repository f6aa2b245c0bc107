import { guessClock } from "./times.js";

const STORED_AS = "tollgate-admin-token";
/** A response that is not whole after this time does not count any more. */
const DEADLINE_MS = 15_000;

/**
 * Whether the text can be a token. A browser refuses to send some other characters, even invisible
 * ones, and tells no reason.
 */
export function isToken(text) {
  return /^[\x20-\x7e]*$/.test(text);
}

/** The token of this tab. */
function storedToken() {
  const token = sessionStorage.getItem(STORED_AS) ?? "";
  return isToken(token) ? token : "";
}

/** An error response with the message of the API, or no response, with status 0. */
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * The admin API. If a token is set, `askToken(why)` asks for it once. It is kept for this tab only
 * and goes into a header, never into a URL.
 */
export class Api {
  #token = storedToken();
  #askToken;
  #asking;
  /** The routes of the gateway, such as "GET /api/keys", once the live stream has set them. */
  routes;

  constructor(askToken) {
    this.#askToken = askToken;
  }

  /** Whether the gateway may have the route: one that has no stream left for this page has all else. */
  has(route) {
    return this.routes?.has(route) ?? true;
  }

  async get(path) {
    return (await this.#json("GET", path)).value;
  }

  /**
   * One page of a list, the number of all entries, the parts of the store and the workers that are
   * missing in it, and the way to the next page (RFC 8288).
   */
  async page(path, deadlineMs = DEADLINE_MS) {
    const { value: items, response } = await this.#json("GET", path, undefined, deadlineMs);
    const total = Number(response.headers.get("x-total-count"));
    return {
      items,
      total,
      missing: missingIn(response),
      next: nextLink(response.headers.get("link"), path),
    };
  }

  /** The answer to a change, and the parts of the store and the workers that have not heard of it. */
  async send(method, path, body = {}) {
    const { value, response } = await this.#json(method, path, body);
    return { value, missing: missingIn(response) };
  }

  /** The response of a stream, once its head has arrived. */
  async open(path, signal) {
    const response = await this.#fetch("GET", path, undefined, () => signal);
    if (!response.ok) throw await refusalOf(response);
    return response;
  }

  async #json(method, path, body, deadlineMs = DEADLINE_MS) {
    const signalOf = () => AbortSignal.timeout(deadlineMs);
    const response = await this.#fetch(method, path, body, signalOf);
    if (!response.ok) throw await refusalOf(response);
    const value = await response.json().catch((error) => {
      throw error instanceof SyntaxError ? error : unanswered(method, path, error);
    });
    return { value, response };
  }

  /** `signalOf` is called for each try, because a person may take long to give the token. */
  async #fetch(method, path, body, signalOf) {
    for (;;) {
      const used = this.#token;
      const headers = {};
      if (used !== "") headers.Authorization = `Bearer ${used}`;
      if (body !== undefined) headers["Content-Type"] = "application/json";
      const content = body === undefined ? undefined : JSON.stringify(body);
      const options = { method, headers, body: content, signal: signalOf(), credentials: "omit" };
      const response = await fetch(path, options).catch((error) => {
        throw unanswered(method, path, error);
      });
      guessClock(response.headers.get("date"));
      if (response.status !== 401) return response;
      await this.#renew(used, await refusalOf(response));
    }
  }

  /** Asks for the token once, however many requests were refused. */
  async #renew(used, { code, message }) {
    if (this.#token !== used) return;
    this.#asking ??= this.#askToken(code === "token_missing" ? undefined : message);
    const token = await this.#asking;
    this.#asking = undefined;
    this.#token = token;
    sessionStorage.setItem(STORED_AS, token);
  }
}

/**
 * Reads whose responses are used in the order of their requests. Responses may arrive out of order:
 * one that arrives after that of a later request for the same path is dropped, and never settles.
 */
export function inOrder(read) {
  let asked = 0;
  const answered = new Map();
  return async (path) => {
    asked += 1;
    const mine = asked;
    try {
      return await read(path);
    } finally {
      if (mine < answered.get(path)) await new Promise(() => {});
      answered.set(path, mine);
    }
  };
}

function missingIn(response) {
  return response.headers.get("x-tollgate-missing");
}

/** A change may have been made although no answer says so. A browser does not tell which it was. */
function unanswered(method, path, { name }) {
  const isLate = name === "TimeoutError";
  const what = isLate
    ? "The gateway does not answer: it hangs, or too many tabs of this browser have this page open"
    : "The gateway does not answer: is it running?";
  const isRead = method === "GET" || path === "/api/keys/find";
  const change = isRead ? "" : "\nIt is not known whether this was done";
  return new Refusal(0, "unreachable", what + change);
}

async function refusalOf(response) {
  const told = await response.json().catch(() => ({}));
  const { code = "unknown", message = `The gateway answered ${response.status}` } = told;
  const more = (told.mistakes ?? []).map(placed);
  return new Refusal(response.status, code, [message, ...more].join("\n"));
}

function placed({ file, line, column, message }) {
  return `${file}:${line}:${column}: ${message}`;
}

/** The path of rel="next": a list goes on at this gateway, wherever the target is. */
function nextLink(header, from) {
  const target = /<([^>]*)>\s*;[^,]*\brel="?next"?/.exec(header ?? "")?.[1];
  if (target === undefined) return undefined;
  const { pathname, search } = new URL(target, new URL(from, location.origin));
  return pathname + search;
}
