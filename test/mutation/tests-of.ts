/**
 * The rooms that can be mutated, and the test files that reach each of them, in the order in which
 * they are run: the first test that fails is the last. A file may have some of its own, which every
 * mutant of the room would wait for.
 */
export const TESTS: Readonly<Record<string, readonly string[]>> = {
  "src/core": ["test/core/**/*.test.ts"],
  "src/stores/quotas/batch": [
    "test/stores/quotas/batch/*.test.ts",
    "test/stores/redis/store-clock.test.ts",
  ],
  "src/stores/files": ["test/stores/files/*.test.ts", "test/stores/quotas/memory/*.test.ts"],
  "src/stores/keys": ["test/stores/keys/*.test.ts"],
  "src/stores/quotas/memory": ["test/stores/quotas/memory/*.test.ts"],
  "src/stores/quotas/outage": ["test/stores/quotas/outage/*.test.ts"],
  "src/stores/redis": ["test/stores/quotas/redis/*.test.ts", "test/stores/redis/*.test.ts"],
  "src/gateway/client": ["test/gateway/client/*.test.ts"],
  "src/gateway/exchange": ["test/gateway/exchange/*.test.ts", "test/gateway/stages/*.test.ts"],
  "src/gateway/forward": ["test/gateway/forward/*.test.ts"],
  "src/gateway/stages": ["test/gateway/stages/*.test.ts", "test/gateway/*.test.ts"],
  "src/gateway/tunnel": ["test/gateway/tunnel/*.test.ts"],
  "src/gateway/upstreams": ["test/gateway/upstreams/*.test.ts"],
  "src/http1": [
    "test/http1/{head,body,framing,field-lines,kept-bytes,piece-buffers,reasons,step}.test.ts",
    "test/http1/outgoing-request.test.ts",
    "test/http1/{answer,chunks,time,pipelining,server-connection}.test.ts",
    "test/http1/{response,connection,request-body,socket}.test.ts",
  ],
  "src/http1/client/client-connection.ts": ["test/http1/back-pressure.test.ts"],
  "src/http1/client/socket.ts": ["test/http1/back-pressure.test.ts"],
};

/** Behind the name of a file, the lines of it that are meant. */
export const LINES = /:\d+-\d+$/;

/** The tests of `files` and of their rooms, each pattern once. */
export function testsOf(files: readonly string[]): string[] {
  const rooms = Object.entries(TESTS).filter(([room]) =>
    files.some((file) => `${file.replace(LINES, "")}/`.startsWith(`${room}/`)),
  );
  return [...new Set(rooms.flatMap(([, tests]) => tests))];
}
