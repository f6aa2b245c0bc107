import { errorCode, errorMessage, quoteValue } from "../../base/messages.ts";
import { loadSqlite } from "../../base/sqlite.ts";
import { formatHostPort, type HostPort } from "../../core/address.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import { CONFIG_IGNORED, JSON_FLAG, type Verb } from "../framework/verb.ts";

export const pets: Verb = {
  name: "pets",
  usage: "--listen HOST:PORT [--data FILE] [--seed] [--config FILE] [--json]",
  summary: "run the sample backend",
  options: [
    {
      name: "listen",
      value: "HOST:PORT",
      required: true,
      summary: "where; port 0 asks for any free port",
    },
    { name: "data", value: "FILE", summary: "keep the animals in this file (in memory)" },
    { name: "seed", summary: "put a handful of animals into a new file" },
    CONFIG_IGNORED,
    JSON_FLAG,
  ],
  args: [],
  example: "pets --listen 127.0.0.1:9001 --data data/pets.db --seed",
  async run(invocation, terminal) {
    const { parseListen } = await import("../../config/schema/addresses.ts");
    const text = invocation.text("listen") ?? "";
    const listen = parseListen(text);
    if ("why" in listen) {
      const found = quoteValue(text);
      return fail(terminal, EXIT_USAGE, `Cannot read --listen: ${listen.why}; it is ${found}`);
    }
    const data = invocation.text("data");
    const dataFile = data === undefined ? {} : { dataFile: data };
    const [seed, asJson] = [invocation.flag("seed"), invocation.flag("json")];
    return servePets({ ...listen.value, ...dataFile, seed, asJson }, terminal);
  },
};

type ServeSettings = HostPort & {
  readonly dataFile?: string;
  readonly seed: boolean;
  readonly asJson: boolean;
};

/** Serves until a signal, or until the demo that started it has ended, for whatever reason. */
async function servePets(wanted: ServeSettings, terminal: Terminal): Promise<number> {
  // The pets are no module of the gateway. This loads SQLite for them without its warning.
  loadSqlite();
  const { startPets } = await import("../../pets/server.ts");
  const { parent } = terminal.process;
  const ended = new Promise<void>((resolve) => {
    parent?.onGone(resolve);
    // A signal may reach the whole group. The gateway drains first, and then closes its
    // connections.
    terminal.process.onEnd(() => {
      if (parent === undefined) resolve();
    });
  });
  try {
    const onError = (error: unknown) =>
      terminal.err(`${error instanceof Error ? error.message : String(error)}\n`);
    const running = await startPets({ ...wanted, onError });
    const url = `${running.url}/v1/pets`;
    if (parent === undefined && wanted.asJson) printJson(terminal, { url });
    else if (parent === undefined) terminal.out(`Pets at ${url}\n`);
    parent?.tell({ listening: running.url });
    await ended;
    await running.stop();
    return EXIT_OK;
  } catch (error) {
    parent?.tell({ failed: whyUnserved(error) });
    if (parent !== undefined) return EXIT_FAILURE;
    // Only the system's own error is one of the address.
    const isOfAddress = errorCode(error) !== undefined;
    const what = isOfAddress ? `Cannot serve pets at ${formatHostPort(wanted)} (--listen): ` : "";
    return fail(terminal, EXIT_FAILURE, `${what}${whyUnserved(error)}`);
  }
}

function whyUnserved(error: unknown): string {
  const isInUse = errorCode(error) === "EADDRINUSE";
  return isInUse ? "the port is in use already" : errorMessage(error);
}
