import { setTimeout as pause } from "node:timers/promises";
import { cleanText } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import type { Records } from "../../core/keys/records.ts";
import { decodeExport } from "../../stores/keys/file/export-records.ts";
import { diffRecords, type RecordPatch } from "../../stores/keys/file/record-patch.ts";
import {
  type CommandKeys,
  IS_DAMAGED,
  type RecordEdit,
  type RecordsIdentity,
} from "../../stores/keys/key-store.ts";
import { fetchAdmin, TEXT } from "./admin-client.ts";

/**
 * Maximum retries after other writers changed the same records first. The pause grows with each.
 */
const TRIES_MAX = 100;
const PAUSE_MAX_MS = 200;

/**
 * The key records of a gateway on another machine, or behind a file that cannot be read. All of
 * them are fetched once. A change sends only the changed records, and the gateway refuses it unless
 * they are still as they were. Rejects in words if the gateway cannot be asked.
 */
export async function openGatewayRecords(config: Config, now: () => number): Promise<CommandKeys> {
  const store = new GatewayRecords(config, now);
  await store.refresh();
  await store.readDamage();
  return store;
}

class GatewayRecords implements CommandKeys {
  readonly #config: Config;
  readonly #now: () => number;
  readonly #listeners: (() => void)[] = [];
  #records: Records = { keys: [], accounts: [] };
  #damage: readonly string[] = [];

  constructor(config: Config, now: () => number) {
    this.#config = config;
    this.#now = now;
  }

  records(): Records {
    return this.#records;
  }

  async refresh(): Promise<void> {
    const question = { path: "/api/keys/export", members: TEXT };
    const exported = await fetchAdmin<string>(this.#config, question);
    if (!exported.ok) throw new Error(exported.message);
    this.#records = await decodeExport(exported.value, this.#now());
  }

  /** Unknown, and so none, if the gateway cannot say it now or is of an older version. */
  async readDamage(): Promise<void> {
    const told = await this.#fetchIdentity();
    if (told.ok) this.#damage = (told.value.damaged ?? []).map(cleanText);
  }

  async change<T>(edit: RecordEdit<T>): Promise<T> {
    for (let tried = 1; ; tried++) {
      const before = this.#records;
      const { records, result } = edit(before);
      if (records === before) return result;
      const changes = diffRecords(before, records);
      const sent = await fetchAdmin(this.#config, {
        ...{ method: "PATCH", path: "/api/records", members: ["changed"] },
        ...{ body: { changes }, look: lookFor(changes) },
      });
      if (sent.ok) {
        this.#records = records;
        for (const listener of this.#listeners) listener();
        return result;
      }
      // A damaged record forbids the change however often it is tried.
      const isRace = sent.status === 409 && !sent.message.endsWith(IS_DAMAGED);
      if (!isRace || tried === TRIES_MAX) throw new Error(sent.message);
      await pause(Math.min(PAUSE_MAX_MS, 10 * tried) * Math.random());
      await this.refresh();
    }
  }

  /** The gateway alone knows what its damaged records have, and judges a change when it is sent. */
  refuseOverDamaged(): void {}

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  damage(): readonly string[] {
    return this.#damage;
  }

  async identity(): Promise<RecordsIdentity> {
    const known = await this.#fetchIdentity();
    if (!known.ok) throw new Error(known.message);
    return { id: known.value.id ?? undefined, place: known.value.place };
  }

  #fetchIdentity() {
    return fetchAdmin<{ id: string | null; place: string; damaged?: readonly string[] }>(
      this.#config,
      { path: "/api/records", members: ["id", "place"] },
    );
  }

  async close(): Promise<void> {}
}

/** Maximum number of new keys that a message names. */
const NAMED_MAX = 10;

/**
 * The command that shows whether these changes were made. New keys are named, because one that nobody
 * has seen works all the same. Somebody has the key of an import: it must not be replaced.
 */
function lookFor(changes: readonly RecordPatch[]): string {
  const keys = changes.filter(({ record }) => record === "key");
  const [verb, shown] = keys.length > 0 ? ["keys", keys] : ["accounts", changes];
  const idOf = ({ after }: RecordPatch): string => (JSON.parse(after) as { id: string }).id;
  const issued = keys.filter(({ before }) => before === null).map(idOf);
  const [id, ...others] = issued.length > 0 ? issued : shown.map(idOf);
  if (others.length > 0) {
    const isNamed = issued.length > 0 && issued.length <= NAMED_MAX;
    return `\`${verb} list\`${isNamed ? `: new keys are ${issued.join(", ")}` : ""}`;
  }
  const instead = `: if it is there and nobody has the key, \`keys rotate ${id} --grace 0s\` issues another in its place`;
  return `\`${verb} show ${id}\`${issued.length > 0 ? instead : ""}`;
}
