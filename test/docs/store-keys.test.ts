import assert from "node:assert/strict";
import { it, onTestFinished } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { readPage } from "./markdown.ts";

/** The names in the table of keys; in small letters, and braces, is what a name has as it stands. */
function namesOnPage(): RegExp[] {
  const [, section = ""] = readPage("docs/reference/store.md").split("## Store keys\n");
  const names = section.split("\n## ")[0]?.match(/(?<=`)PREFIX:[^`]+(?=`)/g) ?? [];
  return names.map((name) => {
    const text = name.replace("{BUCKET}", "{\\d+}").replace(/[A-Z]+/g, "[^:]+");
    return new RegExp(`^${text.replace(/\{([^}]*)\}/, "\\{$1\\}")}$`);
  });
}

it("the page about the store has every key that a scan finds behind a gateway", async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.close());
  const config = { store: redis.url, keys: "redis", history: "7d" };
  await using house = await startTestGateway({ config });
  const { key, account } = await house.issue();
  await (await house.ask(key)).text();
  const body = JSON.stringify({ id: account, for: "1h" });
  assert.equal((await house.admin("/api/bans", { method: "POST", body })).status, 201);
  const client = await redis.client();
  const found = () => client.keys("*");
  await eventually(async () => {
    assert.ok((await found()).some((name) => name.endsWith("}:gateways")));
  });
  const pages = namesOnPage();
  const unknown = (await found()).filter((name) => !pages.some((one) => one.test(name)));
  assert.deepEqual(unknown, []);
});
