import type { Draft, EnvironmentDraft } from "./draft.ts";
import type { Findings } from "./file/findings.ts";
import { formatAddress } from "./schema/addresses.ts";

/** Environments that share a listener all have TLS there, or none: one port speaks one of the two. */
export function checkTls({ environments }: Draft, findings: Findings): void {
  const firsts = new Map<string, { readonly name: string; readonly isTls: boolean }>();
  for (const [name, { listen, tls }] of environments) {
    if (listen === undefined || listen.port === 0) continue;
    const path = ["environments", name, "tls"];
    if (findings.isGiven(path) && tls === undefined) continue;
    const where = formatAddress(listen);
    const isTls = tls !== undefined;
    const first = firsts.get(where);
    if (first === undefined) firsts.set(where, { name, isTls });
    else if (first.isTls !== isTls) {
      const [having, lacking] = isTls ? [name, first.name] : [first.name, name];
      findings.mistake(
        isTls ? path : ["environments", name, "listen"],
        `Cannot share ${where} between ${first.name} and ${name}: ${having} has tls and ${lacking} has not; give tls to both, or choose another port`,
      );
    }
  }
}

/** What the keys of one environment must not say together. */
export function checkEdges(name: string, environment: EnvironmentDraft, findings: Findings): void {
  const { cors, upstreams, upstreamTls } = environment;
  const start = ["environments", name];
  if (cors?.origins.includes("*")) {
    if (cors.credentials) {
      findings.mistake(
        [...start, "cors", "credentials"],
        'Cannot use credentials with origins "*": any page could act as its visitor; name the origins',
      );
    }
    if (cors.origins.length > 1) {
      findings.mistake(
        [...start, "cors", "origins"],
        'Cannot use "*" beside other origins: it stands for all of them; keep one or the other',
      );
    }
  }
  const isAsked = upstreamTls?.ca !== undefined || upstreamTls?.serverName !== undefined;
  if (isAsked && upstreams?.every((origin) => origin.startsWith("http:"))) {
    findings.warning(
      [...start, "upstreamTls"],
      `Nothing uses environments.${name}.upstreamTls: none of its upstreams is https://`,
    );
  }
}
