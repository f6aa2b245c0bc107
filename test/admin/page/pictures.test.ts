import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { openTab, sharedBrowser } from "./browser.ts";
import { readPng, smallPng } from "./png.ts";

/**
 * The pictures of the page that the documentation shows. Each view is opened and has to show what
 * the picture is for; `npm run pictures` writes the files. Pixels are not compared: fonts differ
 * from machine to machine.
 */
const ROOT = join(import.meta.dirname, "../../..");
const FOLDER = join(ROOT, "docs/images");
const WRITES = process.env.PICTURES === "write";
/** The plots of a picture have a minute and a half; a test needs a moment. */
const TRAFFIC_MS = WRITES ? 90_000 : 1_000;
/** All of them together weigh little beside the rest of the package. */
const BYTES_MAX = 60_000;

type Picture = {
  readonly file: string;
  readonly width: number;
  readonly height: number;
  readonly path: (gateway: Shop) => string;
  /** Texts that the view shows; a page that shows others needs new pictures. */
  readonly shows: readonly string[];
};

const PICTURES: readonly Picture[] = [
  {
    ...{ file: "page-overview.png", width: 1280, height: 860 },
    path: () => "",
    shows: ["Ready", "Requests per second", "Refusals per second", "Bans in force"],
  },
  {
    ...{ file: "page-account.png", width: 1280, height: 860 },
    path: ({ account }) => `accounts/${account}`,
    shows: ["pro in production", "Where it stands", "Suspend", "Of the busiest day"],
  },
  {
    ...{ file: "page-phone.png", width: 390, height: 780 },
    path: () => "bans",
    shows: ["Bans", "scraper"],
  },
];

type Shop = TestGateway & { readonly account: string };

/** The customers, and how many of twelve requests are theirs. */
const CUSTOMERS = [
  { account: "bookshop", name: "Bookshop", plan: "pro", share: 4 },
  { account: "acme", name: "Acme Ltd", plan: "business", share: 5 },
  { account: "zoo", name: "City zoo", plan: "free", share: 1 },
  { account: "scraper", name: "Price watch", plan: "free", share: 2 },
] as const;

/** A gateway with customers of several plans, one of them banned, whose requests go on until it is closed. */
async function openShop(): Promise<Shop> {
  const gateway = await startTestGateway({ config: { history: "30d" } });
  const turns: string[] = [];
  for (const { share, ...wanted } of CUSTOMERS) {
    const { key } = await gateway.issue(wanted);
    for (let i = 0; i < share; i++) turns.push(key);
  }
  let open = true;
  let asked = 0;
  const burst = async (i: number) => {
    const requests = 3 + Math.round(2 * Math.sin(i / 25) + Math.sin(i / 7));
    for (let j = 0; j < requests; j++) {
      const key = turns[(asked++ * 5) % turns.length] ?? "";
      await (await gateway.ask(key, asked % 9 === 0 ? "/v1/pets/1" : "/v1/pets")).text();
    }
    await sleep(150);
  };
  const served = (async () => {
    for (let i = 0; open; i++) await burst(i);
  })();
  await sleep(TRAFFIC_MS);
  const body = JSON.stringify({ id: "scraper", for: "1h", reason: "copies the catalogue" });
  const banned = await gateway.admin("/api/bans", { method: "POST", body });
  assert.equal(banned.status, 201, await banned.text());
  return {
    ...gateway,
    account: "bookshop",
    [Symbol.asyncDispose]: async () => {
      open = false;
      await served;
      await gateway[Symbol.asyncDispose]();
    },
  };
}

/** The width and the height of a picture that is whole. */
function sizeOf(file: Buffer): readonly [number, number] {
  const { width, height } = readPng(file);
  return [width, height];
}

async function shows(page: Page, texts: readonly string[]): Promise<void> {
  for (const text of texts) await page.getByText(text).first().waitFor();
}

describe("the pictures of the page", () => {
  let gateway: Shop;
  beforeAll(async () => {
    gateway = await openShop();
  });
  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
  });

  for (const { file, width, height, path, shows: texts } of PICTURES) {
    it(`${file} has its size, and the view still shows what it is for`, async () => {
      const options = { viewport: { width, height }, colorScheme: "light" } as const;
      const url = `${gateway.adminUrl}/#/${path(gateway)}`;
      const { page, complaints } = await openTab(url, options);
      await shows(page, texts);
      await page.getByText(/^(Loading|Waiting)/).waitFor({ state: "detached" });
      const taken = await page.screenshot();
      assert.deepEqual(sizeOf(taken), [width, height]);
      assert.deepEqual(complaints, []);
      if (WRITES) await writeFile(join(FOLDER, file), smallPng(readPng(taken)));
      const kept = readFileSync(join(FOLDER, file));
      assert.deepEqual(sizeOf(kept), [width, height]);
      assert.ok(kept.length < BYTES_MAX, `${kept.length} bytes`);
    });
  }

  it("overview.svg is drawn, names what it shows and loads nothing", async () => {
    const text = readFileSync(join(FOLDER, "overview.svg"), "utf8");
    assert.doesNotMatch(text, /<script|href=|url\((?!#)/);
    const page = await (await sharedBrowser()).newPage();
    await page.goto(`data:image/svg+xml;base64,${Buffer.from(text).toString("base64")}`);
    const drawn = await page.evaluate<string[]>(
      "[...document.querySelectorAll('svg text')].map((one) => one.textContent)",
    );
    for (const name of ["Clients", "Gateway 1", "Gateway 2", "Redis", "Backend", "Operators"]) {
      assert.ok(drawn.includes(name), name);
    }
    await page.close();
  });

  it("are all of those that are kept", () => {
    const kept = readdirSync(FOLDER).filter((name) => name.endsWith(".png"));
    assert.deepEqual(kept.toSorted(), PICTURES.map(({ file }) => file).toSorted());
  });
});
