import { request } from "node:http";
import type { Config } from "../../config/config.ts";
import type { BanReport, UsageReport } from "../../core/keys/report.ts";
import { originOf } from "../frame/curl.ts";
import type { AccountAnswer, Accounts, Lifted } from "./accounts.ts";

const ANSWER_MS_MAX = 10_000;
const ANSWER_CHARACTERS_MAX = 64 * 1024 ** 2;

/**
 * Asks the running gateway through its admin listener: with the memory store no other process knows
 * its accounts (docs/reference/commands.md#which-process-answers). Every failure names
 * `admin.listen` in its message.
 */
export function askAdmin(config: Config): Accounts {
  return {
    bans: () => ask<readonly BanReport[]>(config, "GET", "/api/bans"),
    usage: (id) => ask<UsageReport>(config, "GET", `/api/usage/${encodeURIComponent(id)}`),
    liftBan: (id) => ask<Lifted>(config, "DELETE", `/api/bans/${encodeURIComponent(id)}`),
  };
}

async function ask<T>(config: Config, method: string, path: string): Promise<AccountAnswer<T>> {
  const { admin } = config;
  const reason = "with store: memory the running gateway knows";
  if (admin === undefined) {
    return refused(`Cannot ask the gateway, and ${reason}: admin is off, set admin.listen`);
  }
  const origin = originOf(admin.listen);
  if (admin.listen.port === 0) {
    return refused(`Cannot ask the gateway, and ${reason}: admin.listen has port 0, name one`);
  }
  try {
    const { status, text } = await exchange(new URL(path, origin), method, admin.token);
    const body: unknown = JSON.parse(text);
    if (status === 200) return { ok: true, value: body as T };
    return refused(`${messageOf(body)} (answered ${status} at admin.listen, ${origin})`);
  } catch (error) {
    const why = error instanceof Error ? reasonOf(error) : String(error);
    return refused(
      `Cannot ask the gateway at ${origin} (admin.listen), and ${reason}: ${why}. Is it running?`,
    );
  }
}

function exchange(
  url: URL,
  method: string,
  token: string,
): Promise<{ readonly status: number; readonly text: string }> {
  const headers = {
    "Content-Type": "application/json",
    "Content-Length": 0,
    ...(token === "" ? {} : { Authorization: `Bearer ${token}` }),
  };
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const asked = request(url, { method, headers, agent: false, signal }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (piece: string) => {
        text += piece;
        if (text.length > ANSWER_CHARACTERS_MAX)
          answer.destroy(new Error("the answer is too long"));
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
      answer.on("error", reject);
    });
    asked.on("error", reject);
    asked.end();
  });
}

function reasonOf(error: Error & { code?: string }): string {
  if (error.code === "ECONNREFUSED") return "nothing listens there";
  if (error.name === "SyntaxError") return "what answered is no admin listener";
  if (error.name === "TimeoutError" || error.name === "AbortError") return "it does not answer";
  return error.message;
}

function messageOf(body: unknown): string {
  const message = (body as { message?: unknown } | null)?.message;
  return typeof message === "string" ? message : "The gateway refused";
}

function refused(message: string): AccountAnswer<never> {
  return { ok: false, message };
}
