import { inOrder } from "../parts/api.js";
import { ask } from "../parts/dialogs.js";
import {
  badge,
  button,
  el,
  fillFailure,
  fillOnce,
  heading,
  loading,
  noteChange,
  section,
  view,
} from "../parts/elements.js";
import { counted } from "../parts/format.js";
import { time } from "../parts/times.js";

/** Each reason of a reload is an event of its own. They follow each other within this time. */
const ONE_RELOAD_MS = 500;

/** The configuration in force, with secrets masked, and its reload. */
export function configurationView({ api, live }) {
  const content = el("div", {}, loading());
  const force = el("p", { class: "force" });
  const get = inOrder((path) => api.get(path));
  const load = async () => {
    try {
      const { hash: _, ...config } = await get("/api/config");
      fillOnce(content, config, () => [settings(config)]);
    } catch (error) {
      fillFailure(content, error, load);
    }
  };
  const draw = () => {
    const { config, checks } = live.figures ?? {};
    if (config === undefined) return;
    const reasons = checks.config.why ? reasonsIn(live.events) : [];
    const shown = [config, checks.config, reasons];
    fillOnce(force, shown, () => forceOf(config, checks.config, reasons));
  };
  const ends = [live.onChange(draw), live.onRoutes(load)];
  draw();
  void load();
  return view(
    ends,
    heading(
      "Configuration",
      force,
      button("Reload", () => reload(api), "primary"),
    ),
    section("In force", content),
  );
}

/** The figures that follow tell that another configuration is in force. */
async function reload(api) {
  const done = await ask({
    title: "Reload the configuration?",
    text: "The file is read again. With a mistake in it, the one in force stays.",
    verb: "Reload",
    run: () => api.send("POST", "/api/reload"),
  });
  if (done === undefined) return;
  noteChange(`In force: ${done.value.hash}`, done);
}

/** The reasons of the last reload that was refused: the check, which anybody may read, names none. */
function reasonsIn(events) {
  const refused = events.filter(({ kind }) => kind === "config_refused");
  const isOfLast = ({ time: atMs }) => Math.abs(refused[0].time - atMs) < ONE_RELOAD_MS;
  return [...new Set(refused.filter(isOfLast).map(({ why }) => why))].toReversed();
}

function forceOf({ hash, configuredMs }, { why }, reasons) {
  return [
    "Hash ",
    el("code", {}, hash),
    ", in force since ",
    time(configuredMs / 1_000),
    why && el("span", {}, " ", badge("last reload refused", "bad"), ` ${why}`),
    ...reasons.flatMap((reason) => [el("br"), el("span", { class: "words" }, reason)]),
  ];
}

function settings(config) {
  const parts = Object.entries(config).map(([name, value]) => setting(name, value));
  return el("dl", { class: "settings" }, ...parts.flat());
}

/** One setting: a scalar on one line, anything deeper as a block that can be opened. */
function setting(name, value) {
  const isDeep = typeof value === "object" && value !== null && Object.keys(value).length > 0;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const shown = isDeep
    ? el(
        "details",
        {},
        el("summary", {}, summaryOf(value)),
        el("pre", { tabindex: "0" }, JSON.stringify(value, undefined, 2)),
      )
    : el("code", {}, text);
  return [el("dt", {}, name), el("dd", {}, shown)];
}

function summaryOf(value) {
  const names = Object.keys(value);
  if (Array.isArray(value)) return counted(value.length, "item");
  return names.length > 6 ? `${names.slice(0, 6).join(", ")} …` : names.join(", ");
}
