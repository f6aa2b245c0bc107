/** Every refusal of the pets API, one row for each code. The caller supplies the message. */
export const PET_PROBLEMS = {
  invalid_request: 400,
  invalid_parameter: 400,
  invalid_body: 400,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  body_too_large: 413,
  unsupported_media_type: 415,
  expectation_failed: 417,
  headers_too_large: 431,
  internal_error: 500,
} as const satisfies Record<string, number>;

export type Problem = { readonly code: keyof typeof PET_PROBLEMS; readonly message: string };

/**
 * The result of every check of this API: a value to continue with, or a problem to respond with.
 */
export type PetResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: Problem };

export function valid<T>(value: T): PetResult<T> {
  return { ok: true, value };
}

export function invalid(code: Problem["code"], message: string): PetResult<never> {
  return { ok: false, problem: { code, message } };
}

export function problemStatus(problem: Problem): number {
  return PET_PROBLEMS[problem.code];
}

/** The Error of config/pets.openapi.yaml; `status` repeats the HTTP status. */
export function problemBody({ code, message }: Problem): string {
  return JSON.stringify({ code, message, status: PET_PROBLEMS[code] });
}

/**
 * A client's value as a message quotes it: JSON keeps it from posing as the words of the message.
 */
export function quoted(value: string): string {
  return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
}
