import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Config, LoadResult } from "../../src/config/config.ts";
import { loadConfig } from "../../src/config/load/load.ts";

type Files = Readonly<Record<string, string | Uint8Array>>;

/** Loads `tollgate.yaml` from a fresh folder with these files, and removes the folder. */
export async function loadFiles(
  files: Files,
  env: Readonly<Record<string, string>> = {},
): Promise<LoadResult> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-config-"));
  try {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), text);
    }
    return await loadConfig(join(folder, "tollgate.yaml"), env);
  } finally {
    await rm(folder, { recursive: true });
  }
}

export const ENVIRONMENTS = `environments:
  production: { listen: 127.0.0.1:0, keyTag: live, upstreams: [http://127.0.0.1:9001] }
`;
export const PLANS = "plans: { free: { minute: 60 } }\n";

/** A configuration of the least there can be, with these lines added; it must be sound. */
export async function loadLines(
  lines: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Config> {
  const hasEnvironments = /^environments:/m.test(lines);
  const hasPlans = /^plans:/m.test(lines);
  const text = `${hasEnvironments ? "" : ENVIRONMENTS}${hasPlans ? "" : PLANS}${lines}\n`;
  const loaded = await loadFiles({ "tollgate.yaml": text }, env);
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join("\n"));
  return loaded.config;
}

/** The messages of a configuration that must not be sound, with their places. */
export function told(loaded: LoadResult): string[] {
  if (loaded.ok) return [];
  return loaded.mistakes.map(({ line, column, message }) => `${line}:${column}: ${message}`);
}
