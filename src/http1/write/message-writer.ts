const UNFIT_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const UNFIT_NAME = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/;
const UNFIT_PART = /[^\x21-\x7e]/;

/**
 * Field lines, from names and values in turn. Throws where one could not be sent as what it is: a
 * line end in a value would begin a field, or a message, of its own. A letter beyond latin1 counts
 * as well, since its low byte would be sent.
 */
export function encodeFields(fields: readonly string[]): string {
  let lines = "";
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    if (name === "" || UNFIT_NAME.test(name) || UNFIT_VALUE.test(value)) {
      throw new Error(
        `The field ${JSON.stringify(name)} cannot be sent: it has a byte that may not stand there`,
      );
    }
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** A part of a request line, or a Host, as it is. Throws where it would end the line or the part. */
export function checkLinePart(part: string): string {
  if (part === "" || UNFIT_PART.test(part)) {
    throw new Error(
      "The request cannot be sent: a part of its first line has a byte that may not stand there",
    );
  }
  return part;
}
