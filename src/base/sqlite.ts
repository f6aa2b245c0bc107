type Sqlite = typeof import("node:sqlite");

let loaded: Sqlite | undefined;

/**
 * Node's SQLite, loaded when it is first used. While it loads, Node 22 warns once on stderr that it
 * is experimental. Nothing else runs at that moment, so no other warning is lost.
 */
export function loadSqlite(): Sqlite {
  if (loaded !== undefined) return loaded;
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    loaded = process.getBuiltinModule("node:sqlite");
  } finally {
    process.emitWarning = emitWarning;
  }
  return loaded;
}
