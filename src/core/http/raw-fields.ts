/** The values of one field as they were sent, without blanks around them; `wanted` in lower case. */
export function fieldValues(rawHeaders: readonly string[], wanted: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length !== wanted.length || name.toLowerCase() !== wanted) continue;
    values.push((rawHeaders[i + 1] as string).trim());
  }
  return values;
}
