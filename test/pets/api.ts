import assert from "node:assert/strict";
import type { TestContext } from "vitest";
import { type PetsOptions, type RunningPets, startPets } from "../../src/pets/server.ts";

export type Answer = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Parses `text`; numbers above 2^53 are not exact here. */
  readonly json: unknown;
};

export type Api = RunningPets & {
  get(path: string): Promise<Answer>;
  call(method: string, path: string, init?: RequestInit): Promise<Answer>;
  /** `POST /v1/pets` as application/json: text and bytes as they are, anything else as JSON. */
  post(body: unknown, headers?: Record<string, string>): Promise<Answer>;
};

/** The sample backend on a free port, stopped after the test; a 500 fails it with its cause. */
export async function openApi(t: TestContext, options: Partial<PetsOptions> = {}): Promise<Api> {
  const failures: unknown[] = [];
  const pets = await startPets({
    host: "127.0.0.1",
    port: 0,
    onError: (error) => failures.push(error),
    ...options,
  });
  t.onTestFinished(async () => {
    await pets.stop();
    assert.deepEqual(failures, []);
  });

  async function call(method: string, path: string, init: RequestInit = {}): Promise<Answer> {
    const response = await fetch(`${pets.url}${path}`, { method, ...init });
    const text = await response.text();
    const json = text === "" ? undefined : JSON.parse(text);
    return { status: response.status, headers: response.headers, text, json };
  }

  return {
    ...pets,
    call,
    get: (path) => call("GET", path),
    post: (body, headers = { "content-type": "application/json" }) =>
      call("POST", "/v1/pets", {
        headers,
        body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
      }),
  };
}

/** The Error shape, nothing else in it, `status` repeating that of the response. */
export function assertError(answer: Answer, status: number, code: string): void {
  const { message } = answer.json as { message: string };
  assert.deepEqual([answer.status, answer.json], [status, { code, message, status }]);
  assert.equal(typeof message, "string");
  assert.doesNotMatch(message, /\n| at |node_modules|\.ts\b/);
  assert.match(answer.headers.get("content-type") ?? "", /^application\/json(;|$)/);
}
