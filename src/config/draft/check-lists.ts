import { canonicalNetwork, hasBitsBeyondPrefix } from "../../core/address.ts";
import type { Findings } from "../file/findings.ts";
import type { ConfigPath } from "../file/mistake.ts";
import type { Draft } from "./draft.ts";

/** Warns of entries of lists that are allowed and mean something else, or nothing more. */
export function checkLists(
  { trustedProxies, log, events, environments, admin }: Draft,
  findings: Findings,
): void {
  checkNetworks(trustedProxies, ["trustedProxies"], findings);
  warnOfRepeats(log?.meta, ["log", "meta"], findings);
  warnOfRepeats(events?.kinds, ["events", "kinds"], findings);
  warnOfRepeats(events?.quota, ["events", "quota"], findings);
  warnOfRepeats(admin?.hosts, ["admin", "hosts"], findings);
  for (const [name, { allow, deny, cors }] of environments) {
    const start = ["environments", name];
    checkNetworks(allow, [...start, "allow"], findings);
    checkNetworks(deny, [...start, "deny"], findings);
    warnOfRepeats(cors?.origins, [...start, "cors", "origins"], findings);
  }
}

function checkNetworks(
  networks: readonly string[] | undefined,
  path: ConfigPath,
  findings: Findings,
): void {
  warnOfRepeats(networks, path, findings, canonicalNetwork);
  networks?.forEach((network, i) => {
    if (!hasBitsBeyondPrefix(network)) return;
    const all = network.includes(":") ? 128 : 32;
    const shown = findings.shown([...path, i], network);
    findings.warning(
      [...path, i],
      `${shown} is the whole network in which the address lies: write the first address of the network, or /${all} for this address alone`,
    );
  });
}

function warnOfRepeats(
  list: readonly string[] | undefined,
  path: ConfigPath,
  findings: Findings,
  spell = (value: string) => value,
): void {
  const spelt = list?.map(spell);
  list?.forEach((value, i) => {
    if (spelt?.indexOf(spell(value)) === i) return;
    const shown = findings.shown([...path, i], value);
    findings.warning([...path, i], `${shown} is twice in ${String(path.at(-1))}; remove one`);
  });
}
