import { dirname } from "node:path";
import type { Config } from "../../config/config.ts";
import type { Limit } from "../../core/quota/windows.ts";
import { openStoredRecords } from "../access/with-keys.ts";
import { configFileOf } from "../framework/config-file.ts";
import { prettyLogFormatter } from "../framework/pretty-log.ts";
import type { Terminal } from "../framework/terminal.ts";
import { CONFIG, JSON_LINES, type Verb } from "../framework/verb.ts";
import { type DemoKey, demoText } from "./demo-text.ts";

/** The limits of the demo for the `enterprise` plan (docs/reference/commands.md#demo). */
const AGREED: readonly Limit[] = [
  { window: "minute", limit: 5_000 },
  { window: "day", limit: 500_000 },
];

/**
 * The verb of `npm start`. It always uses the embedded store, so nothing else must be installed.
 */
export const demo: Verb = {
  name: "demo",
  usage: "[--config FILE] [--json]",
  summary: "run the gateway, sample backends and demo keys, all in one terminal",
  options: [CONFIG, JSON_LINES],
  example: "demo --config config/tollgate.yaml",
  args: [],
  async run(invocation, terminal) {
    const { serve } = await import("../../server/serve.ts");
    const { startDemoPets } = await import("./demo-pets.ts");
    const file = configFileOf(invocation);
    let pets: Awaited<ReturnType<typeof startDemoPets>> | undefined;
    let issued: readonly DemoKey[] = [];
    try {
      return await serve(
        {
          file,
          env: { ...terminal.env, REDIS_URL: undefined },
          format: invocation.flag("json") ? undefined : prettyLogFormatter(terminal),
          before: async (config) => {
            pets = await startDemoPets(config, terminal);
            issued = await issueFirstKeys(config, terminal);
            return () => takeBack(config, terminal, issued);
          },
          ready: (gateway, config, print) => {
            const dataFolder = dirname(config.stateFile);
            const text = demoText({ gateway, config, issued, file, dataFolder }, terminal);
            if (invocation.flag("json")) terminal.err(text);
            else print(text);
          },
        },
        terminal,
      );
    } finally {
      await pets?.stop();
    }
  },
};

/** Issues keys on a first start: one per plan for production, a free one for the others. */
async function issueFirstKeys(config: Config, terminal: Terminal): Promise<readonly DemoKey[]> {
  const { issueKeys } = await import("../../core/keys/edit-keys.ts");
  const { keyContextOf } = await import("../../stores/keys/key-store.ts");
  const keys = await openStoredRecords(config, terminal);
  try {
    return await keys.change((before) => {
      if (before.keys.length > 0) return { records: before, result: [] };
      let records = before;
      const result: DemoKey[] = [];
      for (const { environment, plan } of wantedKeys(config)) {
        const limits = config.plans.get(plan) === "custom" ? AGREED : [];
        const wanted = { environment: environment.name, plan, name: `demo ${plan}`, limits };
        const edited = issueKeys(records, wanted, keyContextOf(config, terminal.now()));
        if (!edited.ok) throw new Error(edited.message);
        records = edited.records;
        result.push(...edited.issued.map((one) => ({ ...one, environment })));
      }
      return { records, result };
    });
  } finally {
    await keys.close();
  }
}

function wantedKeys({ environments, plans }: Config) {
  const first = environments.find(({ name }) => name === "production") ?? environments[0];
  const names = [...plans.keys()];
  const least = plans.has("free") ? "free" : (names[0] ?? "");
  return environments.flatMap((environment) =>
    (environment === first ? names : [least]).map((plan) => ({ environment, plan })),
  );
}

/** Removes keys that were not shown, so that a failed start leaves none behind. */
async function takeBack(
  config: Config,
  terminal: Terminal,
  issued: readonly DemoKey[],
): Promise<void> {
  if (issued.length === 0) return;
  const keys = await openStoredRecords(config, terminal);
  const ids = new Set(issued.flatMap(({ record, account }) => [record.id, account.id]));
  await keys.change(({ keys: all, accounts }) => {
    const isLeft = ({ id }: { readonly id: string }) => !ids.has(id);
    return {
      records: { keys: all.filter(isLeft), accounts: accounts.filter(isLeft) },
      result: undefined,
    };
  });
  await keys.close();
}
