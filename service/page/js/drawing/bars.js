// Bars of one kind, one below the other, with intervals where they have any.

import { s } from "../dom.js";
import { linear, shortened, widthOf } from "./scale.js";

const ROW_PX = 26;
const STACKED_PX = 42;
const BAR_PX = 14;

/**
 * Draw bars.
 *
 * Each is `{name, value, low, high, label, colour, text}`; a value of null has a label alone, which
 * `wrong` marks the label, and `lacks` is drawn hollow.
 */
export function drawBars(bars, width) {
  const longest = Math.max(...bars.map(({ name }) => widthOf(name))) + 12;
  // Where a name takes too much of the width it stands above its bar.
  const above = longest > width * 0.42;
  const names = above ? 0 : longest;
  const pitch = above ? STACKED_PX : ROW_PX;
  const labels = Math.max(...bars.map(({ label }) => widthOf(label, 600))) + 10;
  const most = Math.max(...bars.map(({ value, high }) => high ?? value ?? 0), 1e-300);
  const place = linear(0, most, names, Math.max(names + 40, width - labels));
  const svg = s("svg", { viewBox: `0 0 ${width} ${bars.length * pitch + 4}` });
  const marks = bars.map((bar, row) => {
    const y = (row + 1) * pitch - ROW_PX / 2 + 2;
    const name = above ? { x: 0, y: y - 12 } : { x: names - 8, y: y + 4, "text-anchor": "end" };
    svg.append(s("text", { ...name, class: "name" }, shortened(bar.name, above ? width : names)));
    return { ...one(svg, bar, y, place), text: bar.text };
  });
  return { svg, marks };
}

function one(svg, bar, y, place) {
  const start = place(0);
  if (bar.value === null) {
    svg.append(s("text", { x: start, y: y + 4, class: bar.wrong ? "bad" : null }, bar.label));
    return { x: start + 4, y };
  }
  const end = Math.max(place(bar.value), start + 1);
  const around = bar.high === undefined ? end : place(bar.high);
  svg.append(s("rect", { x: start, y: y - BAR_PX / 2, width: end - start, height: BAR_PX, rx: 2, class: bar.lacks ? "lacks" : bar.colour }));
  if (bar.high !== undefined) {
    svg.append(s("path", { d: `M${place(bar.low)} ${y}H${around}M${place(bar.low)} ${y - 4}v8M${around} ${y - 4}v8`, class: "whisker" }));
  }
  svg.append(s("text", { x: Math.max(end, around) + 7, y: y + 4, class: "value" }, bar.label));
  return { x: end, left: start, y };
}
