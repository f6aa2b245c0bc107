/** A label's value. Never a token or a raw path: see metrics.ts. */
export type LabelValue = string | number;

/** The value of a label in the cells that count further values when the table is full. */
const OVERFLOW = "overflow";

/** Labels that keep their values when the table is full, and how many cells are set aside for it. */
export type KeptLabels = { readonly labels: readonly string[]; readonly cellsMax: number };

/**
 * Cells by labels, for counting on the hot path. Nested Maps keyed by the values need no joined
 * string and no hash of one. Holds at most `cellsMax` cells. When it is full, all further
 * combinations share the cells of their kept labels, and one last cell, so that sums stay correct
 * and memory stays bounded.
 */
export class MetricVec<Cell> {
  readonly labelNames: readonly string[];
  /** A lower number takes effect for cells that do not exist yet. */
  cellsMax: number;
  readonly #make: () => Cell;
  readonly #root: Branch<Cell> = new Map();
  readonly #cells: {
    readonly labels: readonly LabelValue[] | undefined;
    readonly cell: Cell;
  }[] = [];
  readonly #kept: KeptLabels;
  /** The number of cells that have only the kept labels. */
  #crowded = 0;
  #overflow: Cell | undefined;

  constructor(
    labelNames: readonly string[],
    cellsMax: number,
    make: () => Cell,
    kept: KeptLabels = { labels: [], cellsMax: 0 },
  ) {
    this.labelNames = labelNames;
    this.cellsMax = cellsMax;
    this.#make = make;
    this.#kept = kept;
  }

  /** The cell of these values, in the order of `labelNames`. It is created when first used. */
  cell(a?: LabelValue, b?: LabelValue, c?: LabelValue, d?: LabelValue, e?: LabelValue): Cell {
    // A list of arguments would be an object for each request.
    let at: Branch<Cell> | Cell | undefined = this.#root;
    if (a !== undefined) at = (at as Branch<Cell>).get(a);
    if (b !== undefined && at !== undefined) at = (at as Branch<Cell>).get(b);
    if (c !== undefined && at !== undefined) at = (at as Branch<Cell>).get(c);
    if (d !== undefined && at !== undefined) at = (at as Branch<Cell>).get(d);
    if (e !== undefined && at !== undefined) at = (at as Branch<Cell>).get(e);
    if (at !== undefined && a !== undefined) return at as Cell;
    // Without labels there is one cell.
    if (a === undefined && this.#cells[0] !== undefined) return this.#cells[0].cell;
    return this.#add([a, b, c, d, e].filter((label) => label !== undefined));
  }

  /** The cell of all values that come after the table is full. It exists from its first use on. */
  overflow(): Cell {
    if (this.#overflow === undefined) {
      this.#overflow = this.#make();
      this.#cells.push({ labels: undefined, cell: this.#overflow });
    }
    return this.#overflow;
  }

  /** Every cell with its labels by name, oldest first. */
  *entries(): Generator<readonly [labels: Record<string, LabelValue>, cell: Cell]> {
    for (const { labels, cell } of this.#cells) {
      const named = this.labelNames.map((name, i) => [name, labels ? labels[i] : OVERFLOW]);
      yield [Object.fromEntries(named), cell];
    }
  }

  /** The same with the labels in order; undefined for those of `overflow`. */
  *rows(): Generator<readonly [labels: readonly LabelValue[] | undefined, cell: Cell]> {
    for (const { labels, cell } of this.#cells) yield [labels, cell];
  }

  #add(labels: readonly LabelValue[]): Cell {
    const { labels: keptLabels, cellsMax: crowdedMax } = this.#kept;
    const crowd = labels.map((label, i) => {
      return keptLabels.includes(this.labelNames[i] as string) ? label : OVERFLOW;
    });
    if (crowdedMax > 0 && crowd.every((label, i) => label === labels[i])) {
      if (this.#crowded >= crowdedMax) return this.overflow();
      this.#crowded += 1;
      return this.#insert(labels);
    }
    const overflows = this.#overflow === undefined ? 0 : 1;
    const used = this.#cells.length - overflows - this.#crowded;
    if (used < this.cellsMax - 1 - crowdedMax) return this.#insert(labels);
    return crowdedMax > 0 ? this.cell(...crowd) : this.overflow();
  }

  #insert(labels: readonly LabelValue[]): Cell {
    const cell = this.#make();
    let at: Branch<Cell> = this.#root;
    for (const label of labels.slice(0, -1)) {
      const next = (at.get(label) as Branch<Cell> | undefined) ?? new Map();
      at.set(label, next);
      at = next;
    }
    at.set(labels.at(-1) as LabelValue, cell);
    this.#cells.push({ labels, cell });
    return cell;
  }
}

type Branch<Cell> = Map<LabelValue, Branch<Cell> | Cell>;

/** The cell of a plain counter. */
export type CounterCell = { value: number };

export function newCounterCell(): CounterCell {
  return { value: 0 };
}

/** The boundaries of OpenTelemetry's `http.server.request.duration`, in seconds. */
export const DURATION_BUCKETS: readonly number[] = [
  0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
];

/** The boundaries of what takes well below a millisecond when all is well, in seconds. */
export const SHORT_DURATION_BUCKETS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1,
];

/** The durations in each bucket, by its boundary in `bounds`; in the last all longer ones. */
export type HistogramCell = {
  readonly bounds: readonly number[];
  readonly counts: number[];
  sum: number;
};

export function newHistogramCell(bounds: readonly number[] = DURATION_BUCKETS): HistogramCell {
  return { bounds, counts: new Array<number>(bounds.length + 1).fill(0), sum: 0 };
}

/** Adds a duration. A boundary belongs to its bucket: `le` is "less or equal". */
export function observeDuration(durations: HistogramCell, seconds: number): void {
  const { bounds, counts } = durations;
  let i = 0;
  while (i < bounds.length && seconds > (bounds[i] as number)) i++;
  counts[i] = (counts[i] as number) + 1;
  durations.sum += seconds;
}
