import type { DeprecatedCall } from "../../../telemetry/history/deprecated-calls.ts";
import { damagedFileError, JsonMemberReader, parseFile } from "../../files/damaged-file.ts";
import { readTextIfAny, replaceFile } from "../../files/replace-file.ts";
import type { KeyUse } from "../activity-store.ts";
import type { AcknowledgedUsage } from "../usage-marks.ts";

const VERSION = 1;

/** The notes of a memory store, as its file has them (docs/reference/history.md#notes). */
export type Notes = {
  readonly used: readonly KeyUse[];
  readonly called: readonly DeprecatedCall[];
  /** Usage events; earlier versions wrote none. */
  readonly acknowledged: readonly AcknowledgedUsage[];
};

const NO_NOTES: Notes = { used: [], called: [], acknowledged: [] };

/** Replaces the file. Rejects if it cannot be written; the old file then stays whole. */
export async function writeNotes(
  file: string,
  { used, called, acknowledged }: Notes,
): Promise<void> {
  const marks = acknowledged.map(({ accountRef, day }) => ({ ...accountRef, day }));
  const text = JSON.stringify({ version: VERSION, used, called, acknowledged: marks });
  await replaceFile(file, [`${text}\n`]);
}

/** Rejects with DamagedFileError, which names the places. A missing file is empty. */
export async function readNotes(file: string): Promise<Notes> {
  const text = await readTextIfAny(file, "the notes");
  if (text === undefined) return NO_NOTES;
  const reader = new NotesReader();
  const read = reader.file(parseFile(file, text));
  if (reader.mistakes.length > 0) throw damagedFileError(file, text, reader.mistakes);
  return read;
}

class NotesReader extends JsonMemberReader {
  file(value: unknown): Notes {
    const { version, used, called, acknowledged = [] } = this.object(value, []);
    if (version !== VERSION) {
      this.noteVersion(["version"], `version ${VERSION}`, version);
      return NO_NOTES;
    }
    return {
      used: this.#items(used, "used", ({ text, integer }) => ({
        key: text("key", "the id of a key"),
        day: integer("day"),
      })),
      called: this.#items(called, "called", ({ text, integer }) => ({
        environment: text("environment", "a text"),
        method: text("method", "a text"),
        route: text("route", "a text"),
        account: text("account", "a text"),
        requests: integer("requests"),
        last: integer("last"),
      })),
      acknowledged: this.#items(acknowledged, "acknowledged", ({ text, integer }) => ({
        accountRef: {
          environment: text("environment", "a name"),
          account: text("account", "a name"),
        },
        day: integer("day"),
      })),
    };
  }

  /** The items of a list, each read by the names of its members. */
  #items<T>(
    list: unknown,
    name: string,
    read: (item: {
      readonly text: (member: string, wanted: string) => string;
      readonly integer: (member: string) => number;
    }) => T,
  ): T[] {
    return this.list(list, [name]).map((item, i) => {
      const members = this.object(item, [name, i]);
      return read({
        text: (member, wanted) => this.text(members[member], [name, i, member], /./, wanted),
        integer: (member) => this.integer(members[member], [name, i, member]),
      });
    });
  }
}
