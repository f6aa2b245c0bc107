import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { linksIn, slugOf } from "../support/citations.ts";
import { readPage } from "./markdown.ts";

/** A reader follows two links at most. */
const PAGES_MAX = 3;

const README = "README.md";
const MAP = "docs/README.md";
const TASKS = "docs/tasks.md";
const OPERATIONS = "docs/operations.md";
const REFERENCE = "docs/reference/README.md";
const at = (page: string) => `docs/reference/${page}.md`;

type Question = {
  readonly asked: string;
  /** The pages from the README on; the last one has the anchor of the section with the answer. */
  readonly path: readonly string[];
  /** Words of the answer. */
  readonly answer: RegExp;
};

const QUESTIONS: readonly Question[] = [
  {
    asked: "How does my sign-up page get a key for a new customer?",
    path: [README, MAP, `${TASKS}#issue-keys-when-customers-sign-up`],
    answer: /POST "\$ADMIN_URL\/api\/keys"/,
  },
  {
    asked: "How do I give out a key that ends by itself?",
    path: [README, `${at("verbs")}#keys-create`],
    answer: /--expires 90d/,
  },
  {
    asked: "How do I let a key call some operations only?",
    path: [README, MAP, `${TASKS}#let-a-key-do-only-some-things`],
    answer: /--scope orders:write/,
  },
  {
    asked: "How do I move a customer to another plan without losing the counts?",
    path: [README, `${at("keys")}#accounts`],
    answer: /Counts, strikes and\s+bans stay/,
  },
  {
    asked: "A key leaked: what do I do?",
    path: [README, MAP, `${TASKS}#replace-a-key-that-leaked`],
    answer: /tollgate keys revoke - </,
  },
  {
    asked: "How do I replace a key without a pause?",
    path: [README, `${at("keys")}#rotation`],
    answer: /key works until the end of the grace/,
  },
  {
    asked: "Why was this request refused?",
    path: [README, "docs/troubleshooting.md#troubleshooting"],
    answer: /tollgate explain/,
  },
  {
    asked: "Why is a customer banned who waits after each 429, and what do I tell them?",
    path: [README, "docs/for-your-users.md#what-to-do"],
    answer: /Pause the application, not the single call/,
  },
  {
    asked: "How does a service of my own call without a limit?",
    path: [README, MAP, `${TASKS}#let-a-service-of-your-own-call-without-a-limit`],
    answer: /internal: \{ minute: 1000000000 \}/,
  },
  {
    asked: "How do I limit callers without a key by their address?",
    path: [README, REFERENCE, `${at("plans")}#public-operations`],
    answer: /charged to `addr:` and the client address/,
  },
  {
    asked: "How do I charge more for an expensive operation?",
    path: [README, REFERENCE, `${at("plans")}#cost`],
    answer: /A request costs `x-cost` of its operation/,
  },
  {
    asked: "How do I bill tokens of a language model?",
    path: [README, REFERENCE, `${at("meters")}#meters`],
    answer: /tokens of a language model/,
  },
  {
    asked: "Can twice the limit pass around midnight, and how do I bound it?",
    path: [README, `${at("http")}#windows`],
    answer: /add a shorter window/,
  },
  {
    asked: "How do I run two gateways with one limit?",
    path: [README, MAP, "docs/tutorials/second-gateway.md#one-limit-over-both"],
    answer: /issue a key. Both gateways know it/,
  },
  {
    asked: "What happens while Redis is unreachable?",
    path: [README, `${OPERATIONS}#while-the-store-is-away`],
    answer: /each gateway admits its share/,
  },
  {
    asked: "How much memory do 200,000 keys take?",
    path: [README, `${OPERATIONS}#memory`],
    answer: /200,000 keys \| 498 MB/,
  },
  {
    asked: "How do I bill a month?",
    path: [README, MAP, `${TASKS}#bill-a-month`],
    answer: /tollgate usage --month 2026-10 --csv/,
  },
  {
    asked: "Is the bill right?",
    path: [README, `${at("commands")}#audit`],
    answer: /`drift` \| nothing names it/,
  },
  {
    asked: "How do I put it behind Cloudflare?",
    path: [README, MAP, `${TASKS}#put-it-behind-cloudflare-or-another-cdn`],
    answer: /trustedProxies:/,
  },
  {
    asked: "How do I serve TLS with certificates that renew themselves?",
    path: [README, MAP, `${TASKS}#serve-tls-with-a-certificate-that-renews-itself`],
    answer: /tls:\s+cert: .*fullchain/,
  },
  {
    asked: "How do web pages call the API?",
    path: [README, MAP, `${TASKS}#let-web-pages-call-the-api`],
    answer: /cors: \{ origins:/,
  },
  {
    asked: "Do uploads of 1 GB and streams pass?",
    path: [README, MAP, `${at("edge")}#streaming`],
    answer: /1 GB through the gateway adds at\s+most 20 MB/,
  },
  {
    asked: "Do WebSockets pass, and are they limited?",
    path: [README, MAP, `${at("edge")}#upgrade`],
    answer: /charged like one/,
  },
  {
    asked: "What do I monitor, and with which alerts?",
    path: [README, `${OPERATIONS}#watching`],
    answer: /examples\/prometheus/,
  },
  {
    asked: "How do I upgrade without a pause, and go back?",
    path: [README, `${OPERATIONS}#upgrades`],
    answer: /Replace gateways one after the other[\s\S]*To go back/,
  },
  {
    asked: "Who still calls an operation that will be removed?",
    path: [README, `${at("commands")}#deprecations`],
    answer: /which accounts called it/,
  },
  {
    asked: "How do I try a limit before it refuses anyone?",
    path: [README, `${at("commands")}#plans-try`],
    answer: /requests that were admitted and would be `limited`/,
  },
  {
    asked: "How do I keep the keys that another product has issued?",
    path: [README, `${at("keys")}#transfer`],
    answer: /with `--plain`, lines/,
  },
  {
    asked: "How do I back up and restore keys?",
    path: [README, MAP, `${TASKS}#back-up-and-restore`],
    answer: /tollgate keys export > records\.jsonl/,
  },
  {
    asked: "How do I delete a customer?",
    path: [README, MAP, `${TASKS}#remove-a-customer`],
    answer: /No command deletes a record/,
  },
  {
    asked: "Which versions of Node and Redis does it need?",
    path: [README, MAP, "docs/install.md#what-it-needs"],
    answer: /Redis 6\.2 or later/,
  },
];

/** The section of a page at an anchor, with the sections inside it. */
function sectionAt(page: string, anchor: string): string {
  const headings = [...readPage(page).matchAll(/^(#{1,6}) (.+)$/gm)];
  const first = headings.findIndex(([, , title = ""]) => slugOf(title) === anchor);
  assert.ok(first >= 0, `${page} has no #${anchor}`);
  const depth = headings[first]?.[1]?.length ?? 0;
  const next = headings.slice(first + 1).find(([, marks = ""]) => marks.length <= depth);
  return readPage(page).slice(headings[first]?.index, next?.index);
}

describe("a question of somebody who runs an API", () => {
  for (const { asked, path, answer } of QUESTIONS) {
    it(`is answered within three pages: ${asked}`, () => {
      assert.ok(path.length <= PAGES_MAX);
      for (const [i, step] of path.slice(1).entries()) {
        const from = path[i] ?? "";
        const [target = ""] = step.split("#");
        const links = linksIn(from, readPage(from)).map(({ page }) => page);
        assert.ok(links.includes(target), `${from} links to ${target}`);
      }
      const [page = "", anchor = ""] = (path.at(-1) ?? "").split("#");
      assert.match(sectionAt(page, anchor), answer);
    });
  }
});
