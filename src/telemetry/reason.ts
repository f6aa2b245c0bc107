/** The message alone: errors of libraries carry commands, addresses and passwords as members. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : "unknown";
}
