import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { freePorts, jsonOf, runVerb } from "./kit.ts";

export type Balance = {
  account: string;
  window: string;
  charged: number;
  open: number;
  drift: number;
  reset: number;
  why?: string;
};
export type Told = {
  matched: number;
  explained: Balance[];
  notCompared: Balance[];
  accounts: number;
  charged: number;
  drift: Balance[];
  open: Balance[];
  missing: string[];
};

export async function openAudited(
  options: Parameters<typeof startTestGateway>[0] = {},
): Promise<TestGateway> {
  const [admin = 0] = await freePorts(1);
  const { config = {} } = options;
  return startTestGateway({
    ...options,
    config: { ...config, admin: { listen: `127.0.0.1:${admin}` } },
  });
}

export type Line = Readonly<Record<string, unknown>>;
export type Asked = {
  readonly leaveOut?: number;
  readonly nowMs?: number;
  readonly args?: readonly string[];
  /** Without any line but those of requests. */
  readonly bare?: boolean;
  /** Has the lines of requests as they should be in the log. */
  readonly edit?: (lines: readonly Line[]) => readonly Line[];
};

export async function audited(
  house: TestGateway,
  { leaveOut = 0, nowMs, args = [], bare = false, edit = (lines) => lines }: Asked = {},
) {
  const log = join(house.directory, "gateway.log");
  const lines = [
    ...(bare ? [] : house.said),
    ...edit(house.lines.slice(leaveOut) as unknown as Line[]),
  ];
  await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const clock = nowMs === undefined ? {} : { nowMs };
  const asked = ["audit", "--log", log, "--config", house.file, "--json", ...args];
  const said = await runVerb(asked, clock);
  return { ...said, told: jsonOf<Told>(said), log };
}

export const line = (lines: readonly Line[], i: number) => lines[i] as Line & { decidedAt: number };
