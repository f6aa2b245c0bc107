import { NAME_PATTERN } from "../../../core/keys/edit-rules.ts";
import type { Ban } from "../../../core/quota/bans.ts";
import type { AccountState } from "../../../core/quota/decide.ts";
import { METER_NAME } from "../../../core/quota/meters.ts";
import type { WindowCount } from "../../../core/quota/window-count.ts";
import { CAP_ID, OPERATION_ID, WINDOW_NAMES } from "../../../core/quota/windows.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { damagedFileError, JsonMemberReader, parseFile } from "../../files/damaged-file.ts";
import type { JsonPath } from "../../files/json-position.ts";
import { moveAside, readTextIfAny } from "../../files/replace-file.ts";
import { type AccountRef, isAccountName } from "../account-ref.ts";
import type { BanCause } from "../admin-changes.ts";

/** One account in the file of the memory store. */
export type SavedAccount = AccountRef & {
  readonly state: AccountState;
  /** How its ban came about, if it has one and the cause is known. */
  readonly cause?: BanCause | undefined;
};

const VERSION = 1;
/** Accounts per chunk: about a millisecond of work, after which the event loop has its turn. */
const PIECE_ACCOUNTS = 500;

/** The text of the file in chunks, a line for each account. Instants are Unix milliseconds. */
export function* encodeState(accounts: Iterable<SavedAccount>): Generator<string> {
  let piece = `{"version":${VERSION},"accounts":[`;
  let separator = "\n";
  let count = 0;
  for (const saved of accounts) {
    piece += separator + line(saved);
    separator = ",\n";
    count += 1;
    if (count % PIECE_ACCOUNTS !== 0) continue;
    yield piece;
    piece = "";
  }
  yield `${piece}\n]}\n`;
}

function line({ environment, account, state, cause }: SavedAccount): string {
  let text = `{"environment":${JSON.stringify(environment)},"account":${JSON.stringify(account)}`;
  for (const counter in state.usage) {
    const usage = state.usage[counter];
    if (usage === undefined) continue;
    const mark = usage.loweredFrom === undefined ? "" : `,${usage.loweredFrom}`;
    text += `,"${counter}":[${usage.startMs},${usage.count},${usage.refusedMs}${mark}]`;
  }
  if (state.strikesMs.length > 0) text += `,"strikesMs":[${state.strikesMs.join()}]`;
  if (state.ban !== undefined) text += `,"ban":${JSON.stringify({ ...state.ban, cause })}`;
  return `${text}}`;
}

/**
 * Reads the file. A missing file is empty. Rejects with DamagedFileError, which names the places,
 * if the file is not in the form that encodeState writes, and leaves it unchanged. A copy of key
 * records is moved aside, because the next write would replace it.
 */
export async function readState(
  file: string,
  report: Reporter = () => {},
): Promise<SavedAccount[]> {
  const text = await readTextIfAny(file, "the state file");
  if (text === undefined) return [];
  if (isKeysCopy(text)) {
    await keepKeysCopy(file, report);
    return [];
  }
  return decodeState(file, text);
}

/** The content of the file. Throws DamagedFileError, which names the places, if it has another form. */
export function decodeState(file: string, text: string): SavedAccount[] {
  const value = parseFile(file, text);
  const reader = new StateReader();
  const accounts = reader.file(value);
  if (reader.mistakes.length > 0) throw damagedFileError(file, text, reader.mistakes);
  return accounts;
}

async function keepKeysCopy(stateFile: string, report: Reporter): Promise<void> {
  const file = await moveAside(stateFile, "elsewhere");
  const why = `${stateFile} had the copy of the key records of a gateway with keys: redis. Counts and bans begin at 0. If its keys belong into the key file: tollgate keys import ${file}`;
  report("warn", "state_elsewhere", { file, why });
}

/**
 * Whether the file is a copy of keys that `keys: redis` left here before the configuration named
 * the memory store: such a copy holds no counters.
 */
function isKeysCopy(text: string): boolean {
  return /^\{"version":\d+,(?:"id":"[^"]*",)?"keys":/.test(text);
}

/**
 * `minute`; `1z141.minute` for a window of an operation; `@17.minute` for a window of a key;
 * `#tokens.minute` for a window of a meter.
 */
function isCounter(name: string): boolean {
  const dot = name.indexOf(".");
  const part = dot === -1 ? undefined : name.slice(0, dot);
  const isMetered = part?.startsWith("#") && METER_NAME.test(part.slice(1));
  if (part !== undefined && !OPERATION_ID.test(part) && !CAP_ID.test(part) && !isMetered) {
    return false;
  }
  return WINDOW_NAMES.some((window) => window === name.slice(dot + 1));
}

class StateReader extends JsonMemberReader {
  file(value: unknown): SavedAccount[] {
    const { version, accounts } = this.object(value, []);
    if (this.mistakes.length > 0) return [];
    if (version !== VERSION) {
      this.noteVersion(["version"], `version ${VERSION}`, version);
      return [];
    }
    return this.list(accounts, ["accounts"]).flatMap((item, index) =>
      this.full ? [] : [this.#account(item, ["accounts", index])],
    );
  }

  #account(value: unknown, path: JsonPath): SavedAccount {
    const { environment, account, strikesMs, ban, ...windows } = this.object(value, path);
    const usage: Partial<Record<string, WindowCount>> = {};
    for (const [name, counted] of Object.entries(windows)) {
      if (!isCounter(name)) this.note([...path, name], "it is unknown", counted);
      else usage[name] = this.#usage(counted, [...path, name]);
    }
    const strikes = strikesMs === undefined ? [] : this.list(strikesMs, [...path, "strikesMs"]);
    const state: AccountState = {
      usage,
      strikesMs: strikes.map((atMs, index) => this.integer(atMs, [...path, "strikesMs", index])),
      ban: ban === undefined ? undefined : this.#ban(ban, [...path, "ban"]),
    };
    return {
      environment: this.text(environment, [...path, "environment"], /./s, "a name"),
      account: this.#name(account, [...path, "account"]),
      state,
      cause: state.ban && this.#cause(ban, [...path, "ban"], state.ban.untilMs),
    };
  }

  /** Earlier versions wrote none. */
  #cause(ban: unknown, path: JsonPath, untilMs: number): BanCause | undefined {
    const { cause } = this.object(ban, path);
    if (cause === undefined) return undefined;
    const at = [...path, "cause"];
    const { atMs, imposed, reason, strikesMs } = this.object(cause, at);
    return {
      untilMs,
      atMs: this.integer(atMs, [...at, "atMs"]),
      imposed: imposed === true,
      reason: this.text(reason, [...at, "reason"], NAME_PATTERN, "at most 200 characters"),
      strikesMs: this.list(strikesMs, [...at, "strikesMs"]).map((ms, index) => {
        return this.integer(ms, [...at, "strikesMs", index]);
      }),
    };
  }

  #name(value: unknown, path: JsonPath): string {
    if (typeof value === "string" && isAccountName(value)) return value;
    this.note(path, "it must be 1 to 64 of A-Z a-z 0-9 . _ -, or a client address", value);
    return "";
  }

  #usage(value: unknown, path: JsonPath): WindowCount {
    const parts = this.list(value, path);
    if (parts.length !== 3 && parts.length !== 4) {
      this.note(path, "it must be [startMs, count, refusedMs]", value);
    }
    const [startMs = 0, count = 0, refusedMs = 0, loweredFrom] = parts.map((part, index) =>
      this.integer(part, [...path, index]),
    );
    const counted = { startMs, count, refusedMs };
    return loweredFrom === undefined ? counted : { ...counted, loweredFrom };
  }

  #ban(value: unknown, path: JsonPath): Ban {
    const { window: name, operation, untilMs, lengthMs, offences } = this.object(value, path);
    const window = WINDOW_NAMES.find((known) => known === name);
    if (window === undefined) {
      this.note([...path, "window"], `it must be one of ${WINDOW_NAMES.join(", ")}`, name);
    }
    const ban = {
      untilMs: this.integer(untilMs, [...path, "untilMs"]),
      lengthMs: this.integer(lengthMs, [...path, "lengthMs"]),
      window: window ?? "minute",
      offences: this.integer(offences, [...path, "offences"]),
    };
    if (operation === undefined) return ban;
    const id = this.text(operation, [...path, "operation"], OPERATION_ID, "an operation's number");
    return { ...ban, operation: id };
  }
}
