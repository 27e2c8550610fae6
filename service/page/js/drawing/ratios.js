// Ratios of one kind, one below the other, to both sides of 1.

import { s } from "../dom.js";
import { number } from "./numbers.js";
import { logarithmic, shortened, spaced, widthOf } from "./scale.js";

const ROW_PX = 26;
const BAR_PX = 14;
const AXIS_PX = 24;
/** The least that the axis reaches to, so that small deviations look small. */
const LEAST = 1.25;
const MARKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 20, 50, 100];

/** Draw ratios: each is `{name, value, label, colour, text}`; a value of null has a label alone. */
export function drawRatios(rows, width) {
  const names = Math.min(width * 0.42, Math.max(...rows.map(({ name }) => widthOf(name))) + 12);
  const labels = Math.max(...rows.map(({ label }) => widthOf(label, 600))) + 14;
  const far = Math.max(LEAST, ...rows.filter(({ value }) => value > 0).map(({ value }) => Math.max(value, 1 / value)));
  const place = logarithmic(1 / far, far, names + 4, Math.max(names + 60, width - labels));
  const bottom = rows.length * ROW_PX + 4;
  const svg = s("svg", { viewBox: `0 0 ${width} ${bottom + AXIS_PX}` });
  const shown = MARKS.filter((mark) => mark <= far * 1.001 && mark >= 0.999 / far);
  for (const mark of shown) svg.append(s("path", { d: `M${place(mark)} 0V${bottom}`, class: mark === 1 ? "axis" : "grid" }));
  for (const mark of spaced(shown, place, (one) => `× ${number(one)}`, { right: width })) {
    svg.append(s("text", { x: place(mark), y: bottom + 16, "text-anchor": "middle" }, `× ${number(mark)}`));
  }
  const marks = rows.map((row, i) => {
    const y = (i + 0.5) * ROW_PX + 2;
    svg.append(s("text", { x: names - 8, y: y + 4, "text-anchor": "end", class: "name" }, shortened(row.name, names - 8)));
    if (!(row.value > 0)) {
      svg.append(s("text", { x: place(1) + 7, y: y + 4 }, row.label));
      return { x: place(1), y, text: row.text };
    }
    const [from, to] = [place(Math.min(1, row.value)), place(Math.max(1, row.value))];
    svg.append(s("rect", { x: from, y: y - BAR_PX / 2, width: Math.max(1.5, to - from), height: BAR_PX, class: row.colour }),
      s("text", { x: to + 7, y: y + 4, class: "value" }, row.label));
    return { x: place(row.value), left: from, y, text: row.text };
  });
  return { svg, marks };
}
