import { takeCoverage } from "node:v8";
import { afterAll } from "vitest";

// Vitest ends its processes by a signal, and Node writes what ran only where a process ends by itself.
if (process.env.NODE_V8_COVERAGE !== undefined) afterAll(() => takeCoverage());
