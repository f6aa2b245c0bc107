import assert from "node:assert/strict";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import axe from "axe-core";
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from "playwright-core";
import { onTestFinished } from "vitest";
import { BROWSERS } from "../../../scripts/needs.ts";

/**
 * Chromium loads the suggestions of its address bar, a page of their own, for each window, and starts
 * a process in advance for the next site: three quarters of the time that a tab takes. This list
 * replaces that of Playwright, whose entries follow the first line.
 */
const FEATURES_OFF = [
  ...["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess"],
  ...["AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "PaintHolding"],
  ...["HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "ThirdPartyStoragePartitioning"],
  ...["AvoidCorsURLLoaderRestartOnRedirect", "LensOverlay", "MediaRouter", "OptimizationHints"],
  ...["NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"],
];

/** Nothing of a user's, and no word to anybody outside. The profile is a new one each time. */
const FLAGS = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
  `--disable-features=${FEATURES_OFF.join(",")}`,
];

const DESKTOP = { width: 1280, height: 860 };

/** The ways in which each view is looked at: three widths, light and dark. */
export const LOOKS = [1440, 768, 390].flatMap((width) =>
  (["light", "dark"] as const).map((colorScheme) => ({
    name: `${width}-${colorScheme}`,
    options: { colorScheme, viewport: { width, height: width > 400 ? 900 : 780 } },
  })),
);

/** Where pictures of views are kept, for people to look at; git ignores it. */
const PICTURES = join(import.meta.dirname, "../../../reports/page");

/**
 * A clock that runs as that of the machine does, and says noon and five seconds now: a test that
 * uses up a minute or a day meets no end of either.
 */
export function fromNoon(): () => number {
  const aheadMs = Date.UTC(2026, 10, 21, 12, 0, 5) - Date.now();
  return () => Date.now() + aheadMs;
}

/** A page of a browser, and everything that went wrong in it: errors, violations, other origins. */
export type Tab = { readonly page: Page; readonly complaints: string[] };

let opened: Promise<Browser> | undefined;

/**
 * The browser of this process, for all of its files: to start one takes two seconds of processor. It
 * ends with the process.
 */
export function sharedBrowser(): Promise<Browser> {
  opened ??= openBrowser();
  return opened;
}

async function openBrowser(): Promise<Browser> {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const executablePath = BROWSERS.flatMap((name) => folders.map((one) => join(one, name))).find(
    isProgram,
  );
  assert.ok(executablePath, "needs a browser: apt-get install chromium-headless-shell");
  return chromium.launch({ executablePath, args: FLAGS });
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export async function openTab(url: string, options: BrowserContextOptions = {}): Promise<Tab> {
  const browser = await sharedBrowser();
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  const page = await context.newPage();
  // A page that is left open goes on asking and drawing beside the next test.
  onTestFinished(async () => {
    if (!page.isClosed()) await page.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
  });
  failRoutesQuietly(page);
  // As long as `eventually`: a busy machine needs it, and no other one waits for it.
  page.setDefaultTimeout(60_000);
  const complaints: string[] = [];
  const { origin } = new URL(url);
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // A refusal of the API is shown on the page, and the browser tells it here too.
    const expected = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !expected) complaints.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const asked = new URL(request.url());
    if (asked.origin !== origin) complaints.push(`asked ${asked.origin}`);
    if (/token|canary/i.test(asked.search)) complaints.push("a secret in a URL");
  });
  await page.goto(url);
  return { page, complaints };
}

/**
 * Has a request fail whose handler does. The gateway of a test ends ahead of its page, which may just
 * ask it for more: an error that no test hears would end the run.
 */
function failRoutesQuietly(page: Page): void {
  const route = page.route.bind(page);
  page.route = (url, handler, options) => {
    const handle: typeof handler = async (one, request) => {
      try {
        await handler(one, request);
      } catch {
        await one.abort().catch(() => undefined);
      }
    };
    return route(url, handle, options);
  };
}

/** Loads the page again in a window of that size and scheme, as somebody else would open it. */
export async function lookAt(page: Page, { options }: (typeof LOOKS)[number]): Promise<void> {
  await page.setViewportSize(options.viewport);
  await page.emulateMedia({ colorScheme: options.colorScheme });
  await page.reload();
}

/**
 * The findings of axe-core on the page as it is, each with the element that it is about. In the dark
 * scheme, which differs by its colours alone, only the rules of colour are asked again.
 */
export async function findings(page: Page): Promise<string[]> {
  // The policy of the page forbids evaluated texts to the page, not to the debugger.
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(axe.source);
  return page.evaluate(`(async () => {
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const { violations } = await globalThis.axe.run(document, {
      resultTypes: ["violations"],
      ...(isDark && { runOnly: ["cat.color"] }),
    });
    return violations.flatMap(({ id, nodes }) => nodes.map((node) => id + " " + node.html));
  })()`);
}

/**
 * Judges a view as it is: no findings of axe, no scroll to the side, the current section in sight.
 * Keeps a picture of the whole of one that fails, and of all by `npm run pictures`, by the name of
 * the look and the view.
 */
export async function checkLook(page: Page, look: string, view: string): Promise<void> {
  let isFit = false;
  try {
    await judge(page, `${view}, ${look}`);
    isFit = true;
  } finally {
    const isKept = !isFit || process.env.PICTURES !== undefined;
    const path = join(PICTURES, look, `${view}.png`);
    if (isKept) await page.screenshot({ path, fullPage: true });
  }
}

async function judge(page: Page, view: string): Promise<void> {
  assert.deepEqual(await findings(page), [], view);
  const [content, window] = await page.evaluate<[number, number]>(
    "[document.documentElement.scrollWidth, innerWidth]",
  );
  assert.ok(content <= window, `${view}: ${content} px in ${window}`);
  const current = await page.locator("nav [aria-current=page]").boundingBox();
  const isSeen = current !== null && current.x >= 0 && current.x + current.width <= window;
  assert.ok(isSeen, `${view}: the current section is out of sight`);
}

/** Presses Tab until the element with this name has the keyboard, as somebody without a mouse does. */
export async function tabTo(page: Page, name: string, tabsMax = 60): Promise<void> {
  for (let i = 0; i < tabsMax; i++) {
    await page.keyboard.press("Tab");
    if ((await focused(page)) === name) return;
  }
  assert.fail(`the keyboard does not reach ${name}: it is at ${await focused(page)}`);
}

/** The name of the element that has the keyboard, as a screen reader says it. */
export function focused(page: Page): Promise<string> {
  return page.evaluate(`(() => {
    const { activeElement: element } = document;
    const label = element.id && document.querySelector('label[for="' + element.id + '"]');
    return (label || element).textContent.trim();
  })()`);
}

/** The text that a person sees there, once it is there. */
export async function textOf(locator: Locator): Promise<string> {
  await locator.first().waitFor();
  return (await locator.allInnerTexts()).join(" ");
}

/** The texts of a table of the page, row by row. */
export async function cells(page: Page, label: string): Promise<string[][]> {
  const region = page.getByRole("region", { name: label, exact: true });
  const rows = await region.locator("tbody tr").all();
  return Promise.all(rows.map((row) => row.locator("td").allInnerTexts()));
}
