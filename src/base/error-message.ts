/** The message alone: errors of libraries carry commands, addresses and passwords as members. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : "unknown";
}
