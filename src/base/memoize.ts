/**
 * A function that computes its result once for each object, and keeps it for as long as the object
 * lives. The objects are replaced as a whole, and never changed.
 */
export function memoize<Key extends object, Value>(
  compute: (key: Key) => Value,
): (key: Key) => Value {
  const known = new WeakMap<Key, Value>();
  return (key) => {
    let value = known.get(key);
    if (value === undefined) {
      value = compute(key);
      known.set(key, value);
    }
    return value;
  };
}
