import { isLoopback } from "../../core/address.ts";
import type { Findings } from "../file/findings.ts";
import type { Draft } from "./draft.ts";

/** Warns of settings that are allowed but probably open a gateway to more people than intended. */
export function checkExposure(
  { trustedProxies = [], events, admin }: Draft,
  findings: Findings,
): void {
  trustedProxies.forEach((network, i) => {
    if (network === undefined || !network.endsWith("/0")) return;
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

function isPlainElsewhere(text: string | undefined): boolean {
  if (text === undefined || !URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return (
    protocol === "http:" && !isLoopback({ host: hostname.replace(/^\[(.*)\]$/, "$1"), port: 0 })
  );
}
