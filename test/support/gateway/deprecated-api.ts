/** A description with an operation that is deprecated, one whose sunset is over, and one that is neither. */
export const DEPRECATED_API = `
openapi: 3.1.0
info: { title: t, version: "1" }
paths:
  /old:
    get:
      operationId: old
      deprecated: true
      x-deprecated-since: "2020-01-01"
      x-sunset: "2126-01-01"
      responses: { "200": { description: ok } }
  /older:
    get:
      operationId: older
      deprecated: true
      x-deprecated-since: "2020-01-01"
      x-sunset: "2020-01-02"
      responses: { "200": { description: ok } }
  /new:
    get:
      operationId: new
      responses: { "200": { description: ok } }
`;
