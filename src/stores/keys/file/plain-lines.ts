import { canBeSent } from "../../../core/keys/credentials.ts";
import { type KeyContext, keyTagOf } from "../../../core/keys/edit-rules.ts";
import { checkKeyText, containsKey, type ForeignKeyFormat } from "../../../core/keys/key.ts";

/** A line with a key itself, and the account that it belongs to. */
export type PlainKeyLine = {
  readonly key: string;
  readonly account: string;
  readonly plan: string;
  readonly environment: string;
  readonly name: string;
};

type PlainLineRules = {
  readonly foreignKeys: readonly ForeignKeyFormat[];
  readonly context: KeyContext;
};

const EXPECTED = 'expected {"key","account","plan","environment"}, all of them texts, and "name"';

/**
 * The line if it can be taken in as far as the line itself shows; otherwise the mistake, in words
 * that never repeat the key. A line without a name has the name "".
 */
export function checkPlainLine(
  value: unknown,
  { context, foreignKeys }: PlainLineRules,
): PlainKeyLine | string {
  if (typeof value !== "object" || value === null) return EXPECTED;
  const { key, account, plan, environment, name = "", ...others } = value as PlainKeyLine;
  if (Object.keys(others).length > 0) return `a member is unknown: ${EXPECTED}`;
  const texts = [key, account, plan, environment, name];
  if (!texts.every((text) => typeof text === "string")) return EXPECTED;
  // Both are stored as they are, and the account goes to the backend and into the log.
  if (containsKey(account, foreignKeys)) return "account holds a whole key";
  if (containsKey(name, foreignKeys)) return "name holds a whole key";
  const keyTag = keyTagOf(context, environment);
  if (keyTag === undefined) return `environment ${JSON.stringify(environment)} is unknown`;
  const shape = checkKeyText(key, { keyPrefix: context.keyPrefix, keyTag, foreignKeys });
  if (!shape.ok) {
    return `the key has no shape that is configured (${shape.refusal.why}): see foreignKeys`;
  }
  if (!canBeSent(key)) return "the key cannot be sent: a request has 16 to 512 characters of one";
  return { key, account, plan, environment, name };
}
