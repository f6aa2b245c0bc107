import { text } from "node:stream/consumers";
import { parse, View } from "vega";
import { compile } from "vega-lite";

// Draws specifications of Vega-Lite: {name: specification} comes in, {name: SVG} goes out.
const CONFIG = { background: "white", axis: { labelLimit: 500 }, font: "sans-serif" };

const svgs = {};
for (const [name, specification] of Object.entries(JSON.parse(await text(process.stdin)))) {
  const { spec } = compile({ ...specification, config: CONFIG });
  svgs[name] = await new View(parse(spec), { renderer: "none" }).toSVG();
}
process.stdout.write(JSON.stringify(svgs));
