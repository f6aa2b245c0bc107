/** What a verb may touch of the world outside: main.ts makes it from `process`, tests may make their own. */
export type Terminal = {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether stdout is a terminal, where style helps. */
  readonly isTty: boolean;
  /** Unix milliseconds. */
  now(): number;
  out(text: string): void;
  err(text: string): void;
  readonly process: ProcessDoor;
};

export type EndSignal = "SIGTERM" | "SIGINT";

/** The process itself, for the verbs that stay: start, pets, demo. */
export type ProcessDoor = {
  /** The command that runs this program again: node and main.ts. */
  readonly self: readonly [string, ...string[]];
  onEndSignal(listener: (signal: EndSignal) => void): void;
  onHangUp(listener: () => void): void;
  /** Hears of what nothing caught; from then on the process does not end by itself. */
  onCrash(listener: (error: unknown) => void): void;
  /** Ends now. */
  exit(status: number): never;
  /** Ends now where even `exit` could hang: SIGKILL. */
  kill(): void;
  /** The process that started this one with a channel, if any: see demo.ts. */
  readonly parent: Parent | undefined;
};

export type Parent = {
  tell(message: PetsMessage): void;
  onGone(listener: () => void): void;
};

/** What pets tell the demo that started them. */
export type PetsMessage = { readonly listening: string } | { readonly failed: string };

/** Contract 1; 64 and 78 are EX_USAGE and EX_CONFIG of sysexits.h. */
export const DONE = 0;
export const FAILED = 1;
export const WRONG_USAGE = 64;
export const WRONG_CONFIGURATION = 78;

/** Says on stderr what went wrong, in words, and gives the status to end with. */
export function fail(terminal: Terminal, status: number, message: string): number {
  terminal.err(`${message}\n`);
  return status;
}

/** With --json stdout is one JSON value and nothing else. */
export function printJson(terminal: Terminal, value: unknown): number {
  terminal.out(`${JSON.stringify(value, null, terminal.isTty ? 2 : 0)}\n`);
  return DONE;
}
