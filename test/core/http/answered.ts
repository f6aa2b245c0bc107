import type { CorsPolicy } from "../../../src/core/http/cors.ts";
import {
  gatewayFields,
  type ResponseFacts,
  replacedFields,
} from "../../../src/core/http/gateway-fields.ts";
import type { Lifecycle } from "../../../src/core/http/lifecycle.ts";
import type { OperationMeter } from "../../../src/core/quota/meters.ts";

type Facts = Partial<Omit<ResponseFacts, "found">> & {
  readonly lifecycle?: Lifecycle | undefined;
  readonly meters?: readonly OperationMeter[];
};

function answered({ lifecycle, meters = [], ...facts }: Facts): ResponseFacts {
  const operation = lifecycle === undefined ? undefined : { lifecycle };
  const plain = { rateLimitInfo: undefined, rateLimit: undefined };
  const environment = { cors: undefined, keyHeaders: [] };
  const decided = { cost: 1, outcome: "admitted" } as const;
  return {
    id: "r",
    ...plain,
    ...environment,
    ...decided,
    found: { operation, meters },
    origin: undefined,
    ...facts,
  };
}

/** Our fields of a response that nothing else is known of; the request id is the first. */
export function ownFieldsOf(facts: Facts): string[] {
  return gatewayFields(answered(facts));
}

/** The backend's fields that ours replace, in order. */
export function replacedBy(facts: {
  readonly lifecycle?: Lifecycle;
  readonly cors?: CorsPolicy;
  readonly meters?: readonly OperationMeter[];
}): string[] {
  return [...replacedFields(answered(facts))].sort();
}
