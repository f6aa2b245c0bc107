import type { Config, EnvironmentConfig } from "../../config/config.ts";
import type { IssuedKey } from "../../core/keys/edit-keys.ts";
import { effectiveLimits } from "../../core/keys/records.ts";
import { aWindow } from "../../core/quota/windows.ts";
import type { GatewayHandle } from "../../server/process/gateway-handle.ts";
import { DEFAULT_FILE } from "../framework/config-file.ts";
import { curlLine } from "../framework/curl.ts";
import { styleOf } from "../framework/table.ts";
import type { Terminal } from "../framework/terminal.ts";

export type DemoScreen = {
  readonly gateway: Pick<GatewayHandle, "urls" | "adminUrl">;
  readonly config: Config;
  readonly issued: readonly DemoKey[];
  /** The file as named on the command line. */
  readonly file: string;
  readonly dataFolder: string;
};

/** The first screen of `npm start`. */
export function demoText(screen: DemoScreen, terminal: Terminal): string {
  const { gateway, config, dataFolder } = screen;
  const { bold, dim } = styleOf(terminal);
  const places = config.environments.map(({ name, routes, upstreams }) => {
    return [name, `${gateway.urls[name]}${routes.basePath}`, `in front of ${upstreams.join(", ")}`];
  });
  if (gateway.adminUrl !== undefined) {
    places.push(["admin", gateway.adminUrl, "/ is a page to watch it; /readyz, /metrics, /api"]);
  }
  places.push(["data", dataFolder, "keys (digests only), counters, bans, animals"]);
  const widths = [0, 1].map((i) => Math.max(...places.map((row) => row[i]?.length ?? 0)));
  const lines = places.map(([name = "", where = "", what = ""]) => {
    return `  ${bold(name.padEnd(widths[0] ?? 0))}  ${where.padEnd(widths[1] ?? 0)}  ${dim(what)}\n`;
  });
  return `\n${bold("Tollgate is up.")} Ctrl-C ends all of it.\n\n${lines.join("")}\n${keysText(screen, terminal)}\n`;
}

function keysText({ issued, config, gateway, file }: DemoScreen, terminal: Terminal): string {
  const { bold, dim } = styleOf(terminal);
  const [environment] = config.environments;
  const [plan] = config.plans.keys();
  const named = file === DEFAULT_FILE ? "" : ` --config ${file}`;
  const command = `npm run -s tollgate -- keys create --env ${environment?.name} --plan ${plan}${named}`;
  if (issued.length === 0) {
    return `Keys of an earlier start are in use. A new one:\n  ${command}\n`;
  }
  const shown = issued.map(({ key, account, environment: where }) => {
    const limits = effectiveLimits(config.plans.get(account.plan) ?? [], account.limits);
    const told = limits.map(({ window, limit }) => `${limit} ${aWindow(window)}`).join(", ");
    const line = curlLine(where, key, gateway.urls[where.name]);
    return `${bold(`${where.name}, ${account.plan}`)} ${dim(`(${told})`)}\n  ${line}\n`;
  });
  return `Demo keys, shown this once (only their digests are kept):\n\n${shown.join("")}\nAnother key:\n  ${command}\n`;
}

export type DemoKey = IssuedKey & { readonly environment: EnvironmentConfig };
