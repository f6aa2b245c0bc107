type Sqlite = typeof import("node:sqlite");

let loaded: Sqlite | undefined;

/**
 * Node's SQLite, loaded where it is first used. Node 22 says on stderr that it is experimental, once,
 * while it is loaded: as nothing else is under way just then, no other warning is lost.
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
