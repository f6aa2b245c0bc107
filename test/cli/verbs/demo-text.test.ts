import assert from "node:assert/strict";
import { it } from "vitest";
import type { Terminal } from "../../../src/cli/framework/terminal.ts";
import { type DemoScreen, demoText } from "../../../src/cli/verbs/demo-text.ts";
import { loadConfig } from "../../../src/config/load/load.ts";
import { openFolder, writeConfig } from "../kit.ts";

const PLAIN = { isTty: false, env: {} } as unknown as Terminal;
const STYLED = { isTty: true, env: {} } as unknown as Terminal;

async function screen(change: Partial<DemoScreen>, terminal = PLAIN): Promise<string> {
  await using folder = await openFolder();
  const loaded = await loadConfig(await writeConfig(folder), {});
  assert.ok(loaded.ok);
  const urls = { production: "http://127.0.0.1:8080", staging: "http://127.0.0.1:18081" };
  const shown = {
    ...{ gateway: { urls, adminUrl: "http://127.0.0.1:9090" }, config: loaded.config },
    ...{ issued: [], file: "config/tollgate.yaml", dataFolder: "./data", ...change },
  };
  return demoText(shown, terminal);
}

it("the first screen of the demo says where everything is, and how to get a key", async () => {
  assert.equal(
    await screen({}),
    `
Tollgate is up. Ctrl-C ends all of it.

  production  http://127.0.0.1:8080/v1   in front of http://127.0.0.1:9
  staging     http://127.0.0.1:18081/v1  in front of http://127.0.0.1:9
  admin       http://127.0.0.1:9090      / is a page to watch it; /readyz, /metrics, /api
  data        ./data                     keys (digests only), counters, bans, animals

Keys of an earlier start are in use. A new one:
  npm run -s tollgate -- keys create --env production --plan free

`,
  );
});

it("the first screen names another file, and no admin listener where there is none", async () => {
  const started = { urls: { production: "http://a", staging: "http://b" }, adminUrl: undefined };
  const text = await screen({ gateway: started, file: "other.yaml" });
  assert.doesNotMatch(text, /admin/);
  assert.match(text, /\n {2}production {2}http:\/\/a\/v1 {2}in front of/);
  assert.match(text, /keys create --env production --plan free --config other\.yaml\n\n$/);
});

it("the first screen shows each new key once, with its limits and a line that tries it", async () => {
  await using folder = await openFolder();
  const loaded = await loadConfig(await writeConfig(folder), {});
  assert.ok(loaded.ok);
  const [environment] = loaded.config.environments;
  const account = { plan: "free", limits: [{ window: "minute", limit: 5 }] };
  const issued = [{ key: "pets_live_x", account, environment }] as unknown as DemoScreen["issued"];
  const text = await screen({ issued });
  const [, keys = ""] = text.split("Demo keys");
  assert.equal(
    keys,
    `, shown this once (only their digests are kept):

production, free (5 a minute, 1000 a day)
  curl -i -H "Authorization: Bearer pets_live_x" "http://127.0.0.1:8080/v1/pets"

Another key:
  npm run -s tollgate -- keys create --env production --plan free

`,
  );
  const upstreams = ["http://a", "http://b"];
  const config = { ...loaded.config, environments: [{ ...environment, upstreams }] };
  const several = await screen({ config } as Partial<DemoScreen>);
  assert.match(several, /\n {2}production .* in front of http:\/\/a, http:\/\/b\n/);
  const styled = await screen({ issued }, STYLED);
  assert.ok(styled.includes("\x1b[1mTollgate is up.\x1b[0m"));
  assert.ok(
    styled.includes("\x1b[1mproduction, free\x1b[0m \x1b[2m(5 a minute, 1000 a day)\x1b[0m"),
  );
});
