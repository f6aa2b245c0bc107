import { OWN_NODE } from "../../support/node-versions.ts";
import { claimsOwnBytes } from "./two-accounts-kit.ts";

claimsOwnBytes([OWN_NODE]);
