import { canonicalNetwork, hostPortOf, isLoopback, isWithin } from "../../core/address.ts";
import type { Findings } from "../file/findings.ts";
import type { Draft } from "./draft.ts";

/** Warns of settings that are allowed but probably open a gateway to more people than intended, or to none. */
export function checkExposure(
  { trustedProxies = [], events, admin, environments }: Draft,
  findings: Findings,
): void {
  checkAllowed(trustedProxies, environments, findings);
  trustedProxies.forEach((network, i) => {
    if (network === undefined || !isEveryAddress(network)) return;
    findings.warning(
      ["trustedProxies", i],
      `${network} is every address: any client may say whose address it has, and so whose limits it uses; name the proxies`,
    );
  });
  if (events !== undefined && isPlainElsewhere(events.url)) {
    findings.warning(
      ["events", "url"],
      "Events go to another machine over http, where others can read them and the accounts in them; use https",
    );
  }
  if (admin !== undefined && /^(.)\1+$/.test(admin.token)) {
    findings.warning(
      ["admin", "token"],
      "The token is one character again and again, which is soon guessed: make one with openssl rand -hex 32",
    );
  }
}

/**
 * Warns if `allow` has proxies in place of clients: a client address is taken from behind the proxies, so every client
 * of theirs would be refused.
 */
function checkAllowed(
  trustedProxies: readonly (string | undefined)[],
  environments: Draft["environments"],
  findings: Findings,
): void {
  const proxies = trustedProxies.flatMap((each) => {
    return each === undefined || isEveryAddress(each) ? [] : [each];
  });
  for (const [name, { allow = [] }] of environments) {
    if (allow.length === 0 || !allow.every((each) => each !== undefined && isWithin(each, proxies)))
      continue;
    findings.warning(
      ["environments", name, "allow"],
      "No client outside of trustedProxies may call, because every network of allow lies within them: allow is about the addresses of clients, which trusted proxies tell; to take connections from proxies alone use a firewall",
    );
  }
}

/** Whether the network has every address of IPv4, or of IPv6. */
function isEveryAddress(network: string): boolean {
  return canonicalNetwork(network).endsWith("/0");
}

function isPlainElsewhere(text: string | undefined): boolean {
  if (text === undefined || !URL.canParse(text)) return false;
  const url = new URL(text);
  return url.protocol === "http:" && !isLoopback(hostPortOf(url));
}
