import type { Verb } from "./framework/verb.ts";

/** Some modules have several verbs. */
type Load = () => Promise<Verb | readonly Verb[]>;

const keysTransfer: Load = async () => (await import("./verbs/keys-transfer.ts")).keysTransfer;
const accountsList: Load = async () => (await import("./verbs/accounts-list.ts")).accountsList;
const accountsState: Load = async () => (await import("./verbs/accounts-state.ts")).accountsState;
const bans: Load = async () => (await import("./verbs/bans.ts")).bans;
const plans: Load = async () => (await import("./verbs/plans.ts")).plans;

/**
 * All verbs, in the order of the help. The code of a verb is loaded when the verb is called or
 * shown, because a gateway or a worker that starts needs that of no other verb.
 */
const VERBS: Readonly<Record<string, Load>> = {
  init: async () => (await import("./verbs/init.ts")).init,
  start: async () => (await import("./verbs/start.ts")).start,
  pets: async () => (await import("./verbs/pets.ts")).pets,
  demo: async () => (await import("./verbs/demo.ts")).demo,
  check: async () => (await import("./verbs/check.ts")).check,
  schema: async () => (await import("./verbs/check.ts")).schema,
  "keys create": async () => (await import("./verbs/keys-create.ts")).keysCreate,
  "keys list": async () => (await import("./verbs/keys-list.ts")).keysList,
  "keys show": async () => (await import("./verbs/keys-list.ts")).keysShow,
  "keys find": async () => (await import("./verbs/keys-list.ts")).keysFind,
  "keys set": async () => (await import("./verbs/keys-set.ts")).keysSet,
  "keys export": keysTransfer,
  "keys import": keysTransfer,
  "keys rotate": async () => (await import("./verbs/keys-rotate.ts")).keysRotate,
  "keys revoke": async () => (await import("./verbs/keys-rotate.ts")).keysRevoke,
  "accounts list": accountsList,
  "accounts show": accountsList,
  "accounts set": async () => (await import("./verbs/accounts-set.ts")).accountsSet,
  "accounts suspend": accountsState,
  "accounts resume": accountsState,
  "accounts reset": accountsState,
  "bans list": bans,
  "bans add": bans,
  "bans lift": bans,
  "bans why": bans,
  usage: async () => (await import("./verbs/usage.ts")).usage,
  "plans list": plans,
  "plans try": plans,
  explain: async () => (await import("./verbs/explain.ts")).explain,
  audit: async () => (await import("./verbs/audit.ts")).audit,
  deprecations: async () => (await import("./verbs/deprecations.ts")).deprecations,
  prove: async () => (await import("./verbs/prove.ts")).prove,
  status: async () => (await import("./verbs/status-reload.ts")).status,
  reload: async () => (await import("./verbs/status-reload.ts")).reload,
  completion: async () => (await import("./verbs/completion.ts")).completionOf(loadVerbs),
  version: async () => (await import("./verbs/version.ts")).version,
};

export const VERB_NAMES: readonly string[] = Object.keys(VERBS);

/** The verb that these words begin with: "start", or "keys create". */
export async function findVerb(words: readonly string[]): Promise<Verb | undefined> {
  const wanted = [`${words[0]}`, `${words[0]} ${words[1]}`];
  const name = VERB_NAMES.find((one) => wanted.includes(one));
  return name === undefined ? undefined : loadVerb(name);
}

export function loadVerbs(names = VERB_NAMES): Promise<readonly Verb[]> {
  return Promise.all(names.map(loadVerb));
}

async function loadVerb(name: string): Promise<Verb> {
  const loaded = (await VERBS[name]?.()) ?? [];
  const verb = [loaded].flat().find((one) => one.name === name);
  if (verb === undefined)
    throw new Error(`The module of the verb ${name} has no verb of this name`);
  return verb;
}
