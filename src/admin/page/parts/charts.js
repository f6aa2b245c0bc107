import uPlot from "../uplot.js";
import { el } from "./elements.js";
import { lonely, withGaps } from "./samples.js";
import { now } from "./times.js";

const HEIGHT_PX = 168;
/** The least span of a plot, in seconds. It grows with the samples. */
const SPAN_S_MIN = 60;

/**
 * A plot of the last 15 minutes. `series` are `{ name, colour, of(sample) }`. `show` formats a
 * value with its unit; `isWhole` removes fractions from the axis. The legend has the newest values,
 * or those under the pointer. `close` releases everything.
 */
export function chart({ title, series, show, isWhole = false, live }) {
  const legend = series.map(() => el("dd", {}, "–"));
  const names = series.map(({ name, colour }) => el("dt", { class: colour }, name));
  const pairs = series.map((_, i) => el("div", {}, names[i], legend[i]));
  const words = series.map(({ name }) => name).join(", ");
  const label = `${title} over the last 15 minutes: ${words}`;
  const canvas = el("div", { class: "canvas", role: "img", "aria-label": label });
  const element = el(
    "figure",
    { class: "chart" },
    el("figcaption", {}, title),
    canvas,
    el("dl", { class: "legend" }, ...pairs),
  );

  let rows = [];
  const span = () => spanOf(live.samples);
  const tell = (at) => {
    const sample = rows[at ?? rows.length - 1];
    series.forEach(({ of, as = show }, i) => {
      legend[i].textContent = sample === undefined ? "–" : as(of(sample));
    });
  };
  let plot;
  const draw = () => {
    rows = withGaps(live.samples);
    plot?.setData(dataOf(rows, series));
    tell();
  };
  const make = () => {
    plot?.destroy();
    const width = Math.max(200, canvas.clientWidth);
    plot = new uPlot(
      options({ series, width, show, isWhole, tell, span }),
      dataOf(rows, series),
      canvas,
    );
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const sized = new ResizeObserver(() => {
    if (plot === undefined) make();
    else if (canvas.clientWidth > 0) plot.setSize({ width: canvas.clientWidth, height: HEIGHT_PX });
  });
  sized.observe(canvas);
  dark.addEventListener("change", make);
  const close = () => {
    sized.disconnect();
    dark.removeEventListener("change", make);
    plot?.destroy();
  };
  return { element, draw, close };
}

/** The columns. Missing values leave a gap; unbounded ones are drawn at the highest of all. */
function dataOf(rows, series) {
  const value = (number) => (number === Number.POSITIVE_INFINITY ? 10_000 : (number ?? null));
  return [rows.map(({ at }) => at), ...series.map(({ of }) => rows.map((one) => value(of(one))))];
}

/** The seconds on the axis: up to the newest sample, which is at the right edge. */
function spanOf(samples) {
  const end = samples.at(-1)?.at ?? now();
  const width = Math.max(SPAN_S_MIN, end - (samples[0]?.at ?? end));
  return [end - width, end];
}

/** The steps of an axis without fractions. */
const WHOLE = [1, 10, 100, 1_000, 10_000, 100_000].flatMap((one) => [one, 2 * one, 5 * one]);

/** UTC, as the log and every other instant of the page. */
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: "UTC" });

function clock(unixSeconds) {
  return CLOCK.format(unixSeconds * 1_000);
}

function options({ series, width, show, isWhole, tell, span }) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: colour("muted"), font, ticks: { show: false } };
  const grid = { stroke: colour("line"), width: 1 };
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    padding: [8, 28, 0, 0],
    cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false } },
    scales: {
      x: { range: span },
      y: { range: (_plot, _from, to) => [0, Math.max(1, to * 1.1)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 70,
        size: 24,
        values: (_plot, ticks) => ticks.map(clock),
      },
      {
        ...axis,
        grid,
        size: 56,
        space: 34,
        values: (_plot, ticks) => ticks.map(show),
        ...(isWhole && { incrs: WHOLE }),
      },
    ],
    series: [
      {},
      ...series.map((one, i) => ({
        stroke: colour(one.colour),
        fill: i === 0 ? `${colour(one.colour)}1f` : undefined,
        width: 1.5,
        points: {
          show: false,
          filter: (plot, of) => lonely(plot.data[of]),
          size: 4,
          fill: colour(one.colour),
        },
        spanGaps: false,
      })),
    ],
    hooks: { setCursor: [(plot) => tell(plot.cursor.idx)] },
  };
}
