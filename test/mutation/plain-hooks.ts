import { registerHooks } from "node:module";

// Preloaded where a test file runs by Node's own runner (test/mutation/trial.ts): "vitest" is that one then.
registerHooks({
  resolve(name, context, next) {
    if (name !== "vitest") return next(name, context);
    return { url: new URL("./plain-vitest.ts", import.meta.url).href, shortCircuit: true };
  },
});
