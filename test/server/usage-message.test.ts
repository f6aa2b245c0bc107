import assert from "node:assert/strict";
import { it } from "vitest";
import { usageMessage } from "../../src/server/events/usage-event.ts";

const USAGE = {
  ...{ plan: "pro", day: 20_600, admitted: 3, units: 5, refused: 1, overage: 2 },
  meters: { tokens: 7 },
};
const DAY = { accountRef: { environment: "production", account: "acme" }, usage: USAGE } as never;

it("a closed day is a CloudEvent of its account, and the same days are the same message", () => {
  const { id, type, body } = usageMessage([DAY], "/tollgate/tg");
  assert.equal(type, "application/cloudevents-batch+json");
  assert.deepEqual(JSON.parse(body), [
    {
      ...{ specversion: "1.0", type: "tollgate.usage", source: "/tollgate/tg", subject: "acme" },
      ...{ id: "production:acme:2026-05-27", time: "2026-05-27T23:59:59Z" },
      datacontenttype: "application/json",
      data: {
        ...{ environment: "production", account: "acme", plan: "pro", day: "2026-05-27" },
        ...{ admitted: 3, units: 5, refused: 1, overage: 2, meters: { tokens: 7 } },
      },
    },
  ]);
  assert.match(id, /^msg_[0-9a-f]{32}$/);
  assert.equal(usageMessage([DAY], "/tollgate/tg").id, id);
  assert.notEqual(usageMessage([DAY, DAY], "/tollgate/tg").id, id);
  assert.notEqual(usageMessage([DAY], "/tollgate/other").id, id);
});
