import { posix } from "node:path";

type Section = {
  readonly title: string;
  readonly index: string;
  readonly pages: readonly string[];
};

const MAP = "docs/README.md";

/** Every page of docs in the order in which they can be read; the index of a section comes first. */
const SECTIONS: readonly Section[] = [
  {
    title: "Start",
    index: `${MAP}#start`,
    pages: ["first-429", "your-backend", "language-model", "second-gateway"].map(
      (name) => `tutorials/${name}`,
    ),
  },
  {
    title: "Guides",
    index: `${MAP}#guides`,
    pages: ["install", "tasks", "billing", "for-your-users", "moving"],
  },
  {
    title: "Operations",
    index: `${MAP}#operations`,
    pages: ["operations", "troubleshooting", "performance"],
  },
  {
    title: "Reference",
    index: "docs/reference/README.md",
    pages: [
      ...[
        "README",
        "http",
        "edge",
        "keys",
        "plans",
        "meters",
        "store",
        "history",
        "commands",
        "verbs",
      ],
      ...["admin", "refusals", "log", "events", "metrics", "telemetry"],
    ]
      .map((name) => `reference/${name}`)
      .concat("configuration"),
  },
  { title: "Background", index: `${MAP}#background`, pages: ["architecture"] },
  {
    title: "Decisions",
    index: "docs/decisions/README.md",
    pages: [
      ...["README", "typescript-without-a-build", "vitest", "libraries", "http1"],
      ...["dispatch-not-a-proxy-library", "hot-path", "workers", "one-hash-per-account"],
      ...[
        "calls-to-a-node",
        "usage-by-day",
        "shares",
        "fixed-utc-windows",
        "admin-listener",
        "network-edges",
      ],
      ...["pets-api", "tunnels-and-streams"],
    ].map((name) => `decisions/${name}`),
  },
  {
    title: "Evidence",
    index: "docs/evidence/README.md",
    pages: ["README", "attack-matrix", "fault-matrix", "mutation"].map(
      (name) => `evidence/${name}`,
    ),
  },
];

const PLACES = SECTIONS.flatMap((section) => {
  return section.pages.map((page) => ({ section, path: `docs/${page}.md` }));
});

/** The pages that have a place, by path from the root, in their order. */
export const PLACED: readonly string[] = PLACES.map(({ path }) => path);

/** Before the last lines of a page, which say where it stands and what comes next. */
const MARK = "<!-- Its place: from scripts/pages/places.ts, by npm run generate. -->";

/**
 * The text of a page with its place at the end: the map, its section and the next page. `titleOf`
 * returns the title of another page.
 */
export function withPlace(path: string, text: string, titleOf: (path: string) => string): string {
  const at = PLACED.indexOf(path);
  const body = (text.split(MARK)[0] ?? "").trimEnd();
  const section = PLACES[at]?.section;
  if (section === undefined) return text;
  const link = (title: string, target: string) => {
    return `[${title}](${posix.relative(posix.dirname(path), target)})`;
  };
  const next = PLACED[at + 1];
  const steps = [
    link("Documentation", MAP),
    ...(section.index === path ? [] : [link(section.title, section.index)]),
  ];
  const onward = next === undefined ? "" : `. Next: ${link(titleOf(next), next)}`;
  return `${body}\n\n${MARK}\n\n---\n\n${steps.join(" › ")}${onward}\n`;
}
