import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { openTab } from "./browser.ts";

describe("a part of a key in the search", () => {
  it("is in no URL and not in the address, whichever part it is", async () => {
    await using house = await startTestGateway();
    const { key } = await house.issue();
    const { page } = await openTab("about:blank");
    const urls: string[] = [];
    page.on("request", (request) => urls.push(request.url()));
    await page.goto(`${house.adminUrl}/#/accounts`);
    await page.getByText("1 account", { exact: true }).waitFor();
    const secret = key.slice(-36);
    const parts = [key.slice(0, -7), key.slice("pets_".length), secret, secret.slice(3, 27)];
    for (const part of parts) {
      const answer = page.waitForResponse("**/api/keys/find");
      await page.getByLabel("Search").fill(part);
      assert.equal((await answer).status(), 404);
      await page.getByText("No account has this key").waitFor();
      urls.push(page.url());
      await page.getByLabel("Search").fill("");
      await page.getByText("1 account", { exact: true }).waitFor();
    }
    assert.deepEqual(
      urls.filter((url) => url.includes(secret.slice(4, 26))),
      [],
    );
  });

  it("is no account: one whose id looks like it is opened, and found in lower case", async () => {
    await using house = await startTestGateway();
    const id = "org_2abZdEfGhIjKlMnOpQrStUvWxYz";
    await house.issue({ account: id });
    await house.issue({ account: id.replace("Yz", "Yy") });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByLabel("Search").fill(id.slice(0, -1));
    await page.getByText("A long word that is no key is found in lower case").waitFor();
    await page.getByLabel("Search").fill(id.slice(0, -1).toLowerCase());
    await page.getByText("2 of 2 accounts", { exact: true }).waitFor();
    await page.getByLabel("Search").fill(id);
    await page.getByRole("heading", { level: 1, name: id }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it("stays said to be of no account though the list below is read again", async () => {
    await using house = await startTestGateway();
    const { key } = await house.issue();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByText("Ready", { exact: true }).waitFor();
    await page.getByText("1 account", { exact: true }).waitFor();
    await page.getByLabel("Search").fill(key.slice(0, -1));
    const told = page.getByText("No account has this key");
    await told.waitFor();
    await house.issue({ account: "another" });
    await page.getByRole("link", { name: "another", exact: true }).waitFor();
    assert.equal(await told.count(), 1);
    assert.deepEqual(complaints, []);
  });
});
