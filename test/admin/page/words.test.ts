import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { DEPRECATED_API } from "../../support/gateway/deprecated-api.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openTab } from "./browser.ts";

const PHONE = { width: 390, height: 780 };
const NOON = Date.UTC(2026, 6, 15, 12);
/** The words of each view and dialog. `WORDS=write` writes them anew, for people to read the difference. */
const FILE = join(import.meta.dirname, "words.txt");
const isWritten = process.env.WORDS === "write";
const read = isWritten ? "" : readFileSync(FILE, "utf8");
const expected = new Map(
  read.split(/^### /m).map((part) => {
    const end = part.indexOf("\n");
    return [part.slice(0, end), part.slice(end + 1)] as const;
  }),
);
const seen = new Map<string, string>();

const VIEWS = [
  ...["", "accounts", "accounts/often", "accounts/seldom", "bans", "plans", "gateways"],
  ...["backends", "deprecations", "events", "explain", "explain/REQUEST", "configuration"],
];
const DIALOGS = [
  ["accounts", ["Create a key"]],
  [
    "accounts/often",
    [
      ...["Add key", "Change plan", "Change limits", "Change anchor", "Reset usage"],
      ...["Ban", "Suspend", "Limits", "Rotate", "Revoke"],
    ],
  ],
  ["accounts/seldom", ["Change plan"]],
  ["bans", ["Lift"]],
] as const;

/** The operations in the colour of danger: their buttons, and those of their dialogs. */
const DANGEROUS = ["Reset usage", "Ban", "Suspend", "Revoke"];

/** The fields of the dialog that is open: their names, what is in them, and an example. */
const FIELDS = `[...document.querySelectorAll("dialog[open] :is(input, select)")]
  .map((one) => [one.name || one.id, one.type, one.value, one.placeholder ?? "", one.required ? "required" : ""])
  .map((words) => "[" + words.filter(Boolean).join(" ") + "]").join("\\n")`;

/** Each table with its columns: which are numbers, and which a phone has no room for. */
const COLUMNS = `[...document.querySelectorAll("#main [role=region]:has(table)")]
  .map((table) => table.ariaLabel + "\\n" + [...table.querySelectorAll("th")].map((head) => {
    const { textAlign, display } = getComputedStyle(head);
    const marks = [textAlign === "right" && "right", display === "none" && "hidden"];
    return ["| " + head.textContent, ...marks.filter(Boolean)].join(", ");
  }).join("\\n")).join("\\n")`;

const VARYING: readonly (readonly [RegExp, string])[] = [
  [/\bk_[0-9A-Za-z]{12}\b/g, "KEY"],
  [/\b[0-9a-f]{64}\b|\b[0-9a-f]{8}\b/g, "HASH"],
  [/\/\S*\/tollgate-\w+/g, "FOLDER"],
  [/127\.0\.0\.1:\d+/g, "ADDRESS"],
  [/^\S+-[0-9a-f]{6}(?:-\d+)?$/gm, "GATEWAY"],
  [/\d[\d.]*(?=\/s| ms)/g, "N"],
  [/\b\d+\.\d+\.\d+\b/g, "VERSION"],
];

/** A text of the page in lines, the cells of a row apart, and what differs each time named. */
function plain(text: string): string {
  const lines = text.replaceAll("\t", "\n| ").split("\n");
  const words = lines.map((line) => line.trim()).filter(Boolean);
  return VARYING.reduce((all, [found, name]) => all.replaceAll(found, name), words.join("\n"));
}

function compare(name: string, text: string): void {
  seen.set(name, text);
  if (!isWritten) assert.equal(`${text}\n`, expected.get(name));
}

async function checkDialog(page: Page, view: string, name: string): Promise<void> {
  await page.getByRole("button", { name, exact: true }).first().click();
  const dialog = page.locator("dialog[open]");
  await dialog.waitFor();
  // Its title is what a screen reader says first.
  const title = await dialog.getByRole("heading").innerText();
  await page.getByRole("dialog", { name: title, exact: true }).waitFor();
  const fields = await page.evaluate<string>(FIELDS);
  compare(`dialog ${view}: ${name}`, plain(`${await dialog.innerText()}\n${fields}`));
  const isDangerous = await dialog.locator("[type=submit].danger").count();
  assert.equal(isDangerous, DANGEROUS.includes(name) ? 1 : 0, `the colour of ${name}`);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
}

describe("the page says to the letter", () => {
  let house: TestGateway;
  let request = "";
  let nowMs = NOON;
  beforeAll(async () => {
    house = await startTestGateway({
      config: {
        plans: {
          free: { minute: 2, day: 1000, observe: { hour: 1 } },
          pro: { month: 200, included: { month: 2 }, concurrent: 7 },
          agreed: "custom",
        },
        ...{ history: "400d", bans: { strikes: 2, grace: "1ms", duration: "1h" } },
      },
      environment: { api: "./api.yaml" },
      files: { "api.yaml": DEPRECATED_API },
      now: () => nowMs,
    });
    const terms = { name: "a shop", scopes: ["beta", "orders"], meta: { tenant: "42" } };
    const free = await house.issue({ account: "often", ...terms });
    const pro = await house.issue({ plan: "pro", account: "seldom" });
    for (const { key } of [free, free, free, pro, pro, pro]) {
      const answer = await house.ask(key, "/v1/old");
      await answer.text();
      if (answer.status === 429) request = answer.headers.get("x-request-id") ?? "";
    }
    const body = JSON.stringify({ id: "seldom", for: "1h", reason: "scrapes" });
    await (await house.admin("/api/bans", { method: "POST", body })).text();
  });
  afterAll(async () => {
    await house[Symbol.asyncDispose]();
    const parts = [...seen].map(([name, text]) => `### ${name}\n${text}\n`);
    if (isWritten) writeFileSync(FILE, parts.join(""));
  });

  const at = (view: string) => `${house.adminUrl}/#/${view.replace("REQUEST", request)}`;

  it("what is in each view, and what each dialog asks for", async () => {
    // The words are English, and so are the numbers, whatever language the browser speaks.
    const { page } = await openTab("about:blank", { locale: "de-DE" });
    // An instant is as far away as it says, however long the test takes.
    await page.clock.setFixedTime(NOON);
    const titles: string[] = [];
    for (const view of VIEWS) {
      await page.goto(at(view));
      const shown = page.locator("#main");
      const text = async () => plain(await shown.innerText()).replaceAll(request, "REQUEST");
      if (isWritten) await page.waitForTimeout(2_000);
      await eventually(async () => compare(`view ${view}`, await text()));
      titles.push(`${await page.title()}: ${await page.locator("[aria-current]").innerText()}`);
    }
    compare("titles", titles.join("\n"));
    const head = [page.locator("header.top"), page.locator("#sections")];
    compare("head", plain((await Promise.all(head.map((one) => one.innerText()))).join("\n")));
    for (const [view, names] of DIALOGS) {
      await page.goto(at(view));
      for (const name of names) await checkDialog(page, view, name);
      if (view !== "accounts/often") continue;
      assert.deepEqual(await page.locator("#main button.danger").allInnerTexts(), DANGEROUS);
    }
  });

  it("which columns are numbers, and which a phone has no room for", async () => {
    const { page } = await openTab("about:blank", { viewport: PHONE });
    for (const view of VIEWS) {
      await page.goto(at(view));
      if (isWritten) await page.waitForTimeout(2_000);
      await eventually(async () => compare(`columns ${view}`, await page.evaluate(COLUMNS)));
    }
  });

  it("how long ago something was, each second anew, by the clock of the gateway", async () => {
    const { page } = await openTab(at("accounts"));
    const created = page.locator("#main time").first();
    await created.waitFor();
    const exact = await Promise.all(
      ["title", "datetime"].map((name) => created.getAttribute(name)),
    );
    assert.deepEqual(exact, ["2026-07-15 12:00:00 UTC", "2026-07-15T12:00:00.000Z"]);
    nowMs += 2 * 3_600_000;
    await created.getByText("2 h ago", { exact: true }).waitFor();
    nowMs += 3_600_000;
    await created.getByText("3 h ago", { exact: true }).waitFor();
  });
});
