import { describe } from "vitest";
import { engineNodes } from "../support/node-versions.ts";
import { claimsRunsOn } from "./engines-kit.ts";

const nodes = await engineNodes();

describe("on the oldest and the newest Node of each line in package.json", () =>
  claimsRunsOn(nodes));
