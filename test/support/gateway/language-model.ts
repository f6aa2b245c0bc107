import { setTimeout as sleep } from "node:timers/promises";
import { type RequestListener, startTestUpstream, type TestUpstream } from "./backend.ts";

/** The parts of a request that decide what the stand-in answers. */
type Completion = {
  readonly max_tokens?: number;
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
};

/**
 * A stand-in for a language model that speaks the chat completions API. A completion uses exactly
 * `max_tokens` tokens and takes `durationMs`.
 */
export function startLanguageModel({ durationMs = 0 } = {}): Promise<TestUpstream> {
  const answer: RequestListener = async (_seen, response, _request, whole) => {
    const asked = JSON.parse((await whole).toString()) as Completion;
    const { max_tokens: total = 16, stream = false, stream_options: options } = asked;
    const usage = { prompt_tokens: 1, completion_tokens: total - 1, total_tokens: total };
    const common = { id: "chatcmpl-1", created: 1, model: "stand-in" };
    if (!stream) {
      await sleep(durationMs);
      const message = { role: "assistant", content: "Hello.", refusal: null };
      const choices = [{ index: 0, message, finish_reason: "stop", logprobs: null }];
      const text = JSON.stringify({ ...common, object: "chat.completion", choices, usage });
      response.writeHead(200, { "Content-Type": "application/json" }).end(text);
      return;
    }
    response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8" });
    const send = (event: object) => {
      const chunk = { ...common, object: "chat.completion.chunk", ...event };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    const isTold = options?.include_usage === true;
    for (const content of ["Hel", "lo."]) {
      const choices = [{ index: 0, delta: { content }, finish_reason: null }];
      send(isTold ? { choices, usage: null } : { choices });
    }
    await sleep(durationMs);
    send({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    if (isTold) send({ choices: [], usage });
    response.end("data: [DONE]\n\n");
  };
  return startTestUpstream(answer);
}
