/** A position in a text: lines and columns from 1. */
export type TextPosition = { readonly line: number; readonly column: number };

/** The position of a character, counted from 0. A line ends with LF. */
export function positionAt(text: string, offset: number): TextPosition {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: offset - lineStart + 1 };
}
