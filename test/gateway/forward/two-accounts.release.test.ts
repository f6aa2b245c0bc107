import { engineNodes, OWN_NODE } from "../../support/node-versions.ts";
import { claimsOwnBytes } from "./two-accounts-kit.ts";

const nodes = await engineNodes();

claimsOwnBytes(nodes.filter(({ version }) => version !== OWN_NODE.version));
