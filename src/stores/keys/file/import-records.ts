import { inSlices } from "../../../base/event-loop.ts";
import { cleanText } from "../../../base/messages.ts";
import { holdsNumber } from "../../../core/keys/caps.ts";
import {
  conflictRefusal,
  type EditResult,
  type KeyContext,
  keyTagOf,
  limitsError,
  metaError,
  missingLimitsError,
  nameError,
  networksError,
  ownerError,
  planError,
  scopesError,
} from "../../../core/keys/edit-rules.ts";
import { containsKey, digestKey, type ForeignKeyFormat, maskKeys } from "../../../core/keys/key.ts";
import { freshId, type TakenIds } from "../../../core/keys/new-ids.ts";
import {
  type AccountRecord,
  earliestEnd,
  isId,
  type KeyRecord,
  type Records,
} from "../../../core/keys/records.ts";
import { MISTAKES_MAX } from "../../files/damaged-file.ts";
import { accountDifferences, keyDifferences } from "../records/record-differences.ts";
import { RecordReader } from "../records/record-format.ts";
import type { ImportLine } from "./import-lines.ts";
import { ImportedCapNumbers } from "./imported-cap-numbers.ts";
import { checkPlainLine } from "./plain-lines.ts";
import { withoutUnixSeconds } from "./unix-instants.ts";

export type ImportOptions = {
  /** Whether each line has a key itself, with its account, plan and environment. */
  readonly plain: boolean;
  readonly foreignKeys: readonly ForeignKeyFormat[];
  readonly context: KeyContext;
};

/**
 * The number of records that are new, that are known already, and that end sooner than before.
 * `differing` names the known accounts and keys that are other than in their lines, with what
 * differs.
 */
export type ImportCounts = {
  readonly keys: number;
  readonly accounts: number;
  readonly known: number;
  readonly ended: number;
  readonly differing: readonly string[];
};

/**
 * Imports all lines or none. A refusal has a line for each mistake. A second import of the same
 * lines changes nothing. If a digest is known already, its earliest end holds.
 */
export function importNow(
  records: Records,
  lines: readonly ImportLine[],
  options: ImportOptions,
): EditResult<ImportCounts> {
  const recordImport = new RecordImport(records, options);
  for (const _ of recordImport.take(lines));
  return recordImport.end();
}

/**
 * The same as importNow in pieces of a few milliseconds, for a process that serves or shows its
 * progress. Returns the edit for the records that it was prepared with; for other records the edit
 * prepares itself again.
 */
export async function prepareImport(
  records: Records,
  lines: readonly ImportLine[],
  options: ImportOptions,
): Promise<(newest: Records) => EditResult<ImportCounts>> {
  const recordImport = new RecordImport(records, options);
  await inSlices(recordImport.take(lines), () => undefined);
  return (newest) => {
    return newest === records ? recordImport.end() : importNow(newest, lines, options);
  };
}

class RecordImport {
  readonly #mistakes: string[] = [];
  readonly #records: Records;
  readonly #options: ImportOptions;
  readonly #accounts = new Map<string, AccountRecord>();
  readonly #byDigest = new Map<string, KeyRecord>();
  /** Ids of keys and accounts. The first key of an older account has the id of that account. */
  readonly #taken: TakenIds = new Set<string>();
  readonly #importId: string;
  /** By the id of a key: its account. */
  readonly #keyOwners = new Map<string, string>();
  readonly #capNumbers = new ImportedCapNumbers();
  readonly #reader = new RecordReader();
  #known = 0;
  #ended = 0;
  readonly #differing: string[] = [];
  /** Whether a key that is known ends sooner, or has a successor that it had not. */
  #isChanged = false;

  constructor(records: Records, options: ImportOptions) {
    this.#records = records;
    this.#options = options;
    this.#importId = freshId("i_", options.context, new Set());
  }

  /** Takes in the lines until there are too many mistakes. Yields after each line. */
  *take(lines: readonly ImportLine[]): Generator<void> {
    const { keys, accounts } = this.#records;
    for (const account of accounts) {
      this.#accounts.set(account.id, account);
      this.#taken.add(account.id);
      yield;
    }
    for (const key of keys) {
      this.#byDigest.set(key.digest, key);
      this.#taken.add(key.id);
      this.#keyOwners.set(key.id, key.account);
      if (key.caps !== undefined && holdsNumber(key.caps, this.#options.context.nowMs)) {
        this.#capNumbers.take(key.account, key.caps.number);
      }
      yield;
    }
    for (const { at, value, isKept, mistake: unread } of lines) {
      const mistake = unread ?? this.#take(value, isKept);
      if (mistake !== undefined) {
        const told = cleanText(maskKeys(mistake, this.#options.foreignKeys));
        this.#mistakes.push(`${at}: ${told}`);
      }
      if (this.#mistakes.length === MISTAKES_MAX) {
        this.#mistakes.push(`Stopped after ${MISTAKES_MAX} mistakes: more may follow`);
        return;
      }
      yield;
    }
  }

  end(): EditResult<ImportCounts> {
    if (this.#mistakes.length > 0) return conflictRefusal(this.#mistakes.join("\n"));
    const keys = [...this.#byDigest.values()];
    const accounts = [...this.#accounts.values()];
    const counts = {
      keys: keys.length - this.#records.keys.length,
      accounts: accounts.length - this.#records.accounts.length,
    };
    const isSame = counts.keys + counts.accounts === 0 && !this.#isChanged;
    const records = isSame ? this.#records : { keys, accounts };
    const [known, ended, differing] = [this.#known, this.#ended, this.#differing];
    return { ok: true, records, ...counts, known, ended, differing };
  }

  #take(value: unknown, isKept?: boolean): string | undefined {
    if (value === undefined) return NO_JSON;
    return this.#options.plain ? this.#takePlain(value) : this.#takeRecord(value, isKept);
  }

  /** The mistake in a line of `keys export`; undefined if the line was taken in. */
  #takeRecord(value: unknown, isKept = false): string | undefined {
    if (typeof value !== "object" || value === null) return NO_RECORD;
    const { record, ...members } = withoutUnixSeconds(value) as Record<string, unknown>;
    if (record !== "account" && record !== "key") return NO_RECORD;
    if (members.version === undefined) return "version is missing: export it with this version";
    if (record === "account") {
      const account = this.#reader.account(members, []);
      return this.#misread() ?? this.#account(account, isKept);
    }
    const { record: key } = this.#reader.key(members, []);
    return this.#misread() ?? this.#key(key, isKept);
  }

  /** The mistake in a line with a key itself; undefined if the line was taken in. */
  #takePlain(value: unknown): string | undefined {
    const line = checkPlainLine(value, this.#options);
    if (typeof line === "string") return line;
    const { key, account, plan, environment, name } = line;
    const { context } = this.#options;
    const createdMs = context.nowMs;
    const terms = { id: account, environment, plan, limits: [], meta: {}, createdMs };
    const mistake = this.#account(terms);
    if (mistake !== undefined) return mistake;
    const digest = digestKey(key);
    const id = this.#byDigest.get(digest)?.id ?? freshId("k_", context, this.#taken);
    const rest = { name, environment, account, scopes: [], from: [], createdMs };
    return this.#key({ ...rest, id, digest });
  }

  #misread(): string | undefined {
    const [mistake] = this.#reader.mistakes.splice(0);
    return mistake && `${mistake.path.join(".")} cannot be used: ${mistake.why}`;
  }

  #account(account: AccountRecord, isKept = false): string | undefined {
    const { id, environment, plan, limits } = account;
    const known = this.#accounts.get(id);
    if (known !== undefined) {
      if (known.environment !== environment) {
        return `account ${id} lives in ${known.environment} here, not in ${environment}`;
      }
      const { nowMs } = this.#options.context;
      this.#stays(id, accountDifferences(known, account, nowMs));
      // A loss must not keep its keys away because the account was moved since.
      return known.plan === plan || isKept
        ? undefined
        : `account ${id} is on plan ${known.plan} here, not on ${plan}: \`accounts set\` moves it`;
    }
    const owner = this.#keyOwners.get(id);
    if (owner !== undefined) return `${id} is a key of account ${owner} here`;
    // No configuration has such a name, and each list of accounts would print it to a terminal.
    if (/\p{Cc}/u.test(environment + plan)) {
      return `environment ${environment} and plan ${plan} must have no control characters`;
    }
    const { context } = this.#options;
    if (!isKept && keyTagOf(context, environment) === undefined) {
      return `environment ${JSON.stringify(environment)} is unknown`;
    }
    // One account of a plan that is gone must not keep away those that a loss took from all others,
    // and neither must an ID or a name that an earlier version took.
    const mistake =
      (isId(id)
        ? undefined
        : "the account must be 1 to 64 of A-Z a-z 0-9 . _ -, and not . or ..") ??
      planError(plan, context) ??
      missingLimitsError(plan, limits, context) ??
      // The meters of another configuration go with the account.
      limitsError(limits, {}) ??
      metaError(Object.entries(account.meta)) ??
      this.#heldKey({ meta: account.meta, suspended: account.suspended });
    if (!isKept && mistake !== undefined) return mistake;
    this.#accounts.set(id, { ...account, importId: this.#importId });
    this.#taken.add(id);
    return undefined;
  }

  /**
   * A known record stays as it is here, because either may be the newer one. A plain line has
   * nothing but the plan, for which it is refused.
   */
  #stays(name: string, differing: readonly string[]): void {
    if (this.#options.plain || differing.length === 0) return;
    this.#differing.push(`${name} (${differing.join(", ")})`);
  }

  /** The member that holds a whole key: it would be kept, shown and logged. */
  #heldKey(members: Readonly<Record<string, unknown>>): string | undefined {
    const { foreignKeys } = this.#options;
    const holder = Object.keys(members).find((name) => {
      return containsKey(JSON.stringify(members[name]) ?? "", foreignKeys);
    });
    return holder && `${holder} holds a whole key`;
  }

  #key(key: KeyRecord, isKept = false): string | undefined {
    const { id, digest, account } = key;
    const known = this.#byDigest.get(digest);
    if (known !== undefined) {
      if (known.account !== account) return `this key is one of account ${known.account} here`;
      // A key that replaced this one shares its number, whatever that is here.
      if (key.caps !== undefined && known.caps !== undefined) {
        this.#capNumbers.isHere(account, key.caps.number, known.caps.number);
      }
      this.#known += 1;
      this.#stays(`key ${known.id}`, keyDifferences(known, key));
      const ended = earliestEnd(known, key);
      if (ended === known) return undefined;
      this.#isChanged = true;
      if (ended.revokedMs !== known.revokedMs || ended.expiresMs !== known.expiresMs) {
        this.#ended += 1;
      }
      this.#byDigest.set(digest, { ...ended, importId: this.#importId });
      return undefined;
    }
    const owner = this.#accounts.get(account);
    const unowned = ownerError(key, owner);
    if (unowned !== undefined) {
      return owner === undefined ? `${unowned}: it comes before its keys` : unowned;
    }
    const isFirstOfOlder = id === account;
    const isTaken = isFirstOfOlder ? this.#keyOwners.has(id) : this.#taken.has(id);
    if (this.#options.plain === false && isTaken) {
      return `another key or account has the ID ${id}`;
    }
    const mistake =
      nameError(key.name) ??
      (isId(id) ? undefined : `${id} cannot be an ID`) ??
      scopesError(key.scopes) ??
      networksError(key.from) ??
      this.#heldKey({ name: key.name });
    if (!isKept && mistake !== undefined) return mistake;
    const number = key.caps && this.#capNumbers.numberOf(account, key.caps.number);
    if (number === "none") return `too many keys of account ${account} have caps`;
    const caps = key.caps && number !== undefined ? { caps: { ...key.caps, number } } : {};
    this.#byDigest.set(digest, { ...key, ...caps, importId: this.#importId });
    this.#taken.add(id);
    this.#keyOwners.set(id, account);
    return undefined;
  }
}

const NO_JSON = "it is no JSON: each line is one object";
const NO_RECORD =
  'it is no line of `keys export`: lines {"key","account","plan","environment"} need --plain';
