import type { CorsPolicy } from "../../../src/core/http/cors.ts";
import {
  gatewayFields,
  type ResponseFacts,
  replacedFields,
} from "../../../src/core/http/gateway-fields.ts";
import type { Lifecycle } from "../../../src/core/http/route.ts";

type Facts = Partial<Omit<ResponseFacts, "found">> & { readonly lifecycle?: Lifecycle | undefined };

function answered({ lifecycle, ...facts }: Facts): ResponseFacts {
  const operation = lifecycle === undefined ? undefined : { lifecycle };
  const plain = { standing: undefined, cost: 1, rateLimit: undefined, cors: undefined };
  return { id: "r", ...plain, found: { operation }, origin: undefined, ...facts };
}

/** Our fields of a response that nothing else is known of; the request id is the first. */
export function ownFieldsOf(facts: Facts): string[] {
  return gatewayFields(answered(facts));
}

/** The backend's fields that ours replace, in order. */
export function replacedBy(facts: {
  readonly lifecycle?: Lifecycle;
  readonly cors?: CorsPolicy;
}): string[] {
  return [...replacedFields(answered(facts))].sort();
}
