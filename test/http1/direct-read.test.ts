import { OWN_NODE } from "../support/node-versions.ts";
import { claimsDirectReads } from "./direct-read-kit.ts";

claimsDirectReads([OWN_NODE]);
