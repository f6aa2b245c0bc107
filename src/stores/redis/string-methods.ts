/** More than it takes V8 to see that the same place is asked again and again. */
const ASKED = 1_000;

/**
 * Makes the methods of strings quick again. ioredis has a class that extends String, and V8 turns
 * whatever is extended into a dictionary, in which each `text.length` and `text.slice` of the process
 * is looked up anew. It turns that back when an object asks for what stands there; strings, which are
 * no objects, never make it do so (docs/decisions/hot-path.md).
 */
export function restoreStringMethods(): void {
  const text = Object("x") as string;
  for (let i = 0; i < ASKED; i++) text.charCodeAt(0);
}
