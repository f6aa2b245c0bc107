import assert from "node:assert/strict";
import type { RecordedRequest } from "../support/gateway/backend.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../support/gateway/served.ts";

/** More than any attack here needs: what is tested is the attack, and not the quota. */
const LIMITS = [{ window: "month", limit: 10 ** 9 }] as const;

/** A gateway with one key that nothing exhausts, and an allowance that no attack uses up. */
export function openAttacked({
  keys,
  config,
  ...options
}: TestGatewayOptions = {}): Promise<TestGateway> {
  return startTestGateway({
    keys: { [KEY]: { plan: "enterprise", id: ACCOUNT, limits: LIMITS }, ...keys },
    // A month has no edge that a test is likely to meet.
    config: { unauthenticated: { month: 10 ** 9 }, ...config },
    ...options,
  });
}

/** The values of one field as the backend saw them, the name in any case. */
export function fieldOf({ rawHeaders }: RecordedRequest, name: string): string[] {
  return rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name);
}

export function namesOf({ rawHeaders }: RecordedRequest): string[] {
  return rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
}

export function lastSeen({ backend }: TestGateway): RecordedRequest {
  return backend.seen.at(-1) as RecordedRequest;
}

/** The law (docs/reference/http.md#law), and that nothing came of it that nobody expected. */
export async function lawHolds(house: TestGateway): Promise<void> {
  await house.law();
  assert.deepEqual(
    house.said.filter(({ level }) => level === "error"),
    [],
  );
}
