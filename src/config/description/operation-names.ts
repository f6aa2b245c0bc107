/** Where an operation is described, and whether it has windows of its own. */
type NamedOperation = { readonly where: string; readonly isLimited: boolean };

/**
 * The names of an environment that people see windows under: those of its operations, across all of
 * its descriptions, and those of meters. None may have two meanings.
 */
export class OperationNames {
  readonly #operations = new Map<string, NamedOperation>();
  readonly #meters = new Map<string, string>();

  /** The operation with this name, or with this short number, `#1z141`. */
  get(name: string): NamedOperation | undefined {
    return this.#operations.get(name);
  }

  set(name: string, operation: NamedOperation): void {
    this.#operations.set(name, operation);
  }

  /** The place of the first meter with this name. */
  meterAt(name: string): string | undefined {
    return this.#meters.get(name);
  }

  /** Notes a meter. Returns the place of the operation that has its name already, if one has. */
  claimMeter(name: string, where: string): string | undefined {
    if (!this.#meters.has(name)) this.#meters.set(name, where);
    return this.#operations.get(name)?.where;
  }
}
