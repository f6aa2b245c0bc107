import { engineNodes, OWN_NODE } from "../support/node-versions.ts";
import { claimsDirectReads } from "./direct-read-kit.ts";

const nodes = await engineNodes();

claimsDirectReads(nodes.filter(({ version }) => version !== OWN_NODE.version));
