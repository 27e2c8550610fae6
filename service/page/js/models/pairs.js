// Two values a group, one below the other: of the version that serves and of another.

import { s } from "../dom.js";
import { legend } from "../drawing/legend.js";
import { linear, shortened, widthOf } from "../drawing/scale.js";

const ROW_PX = 54;
const BAR_PX = 12;

/**
 * Draw pairs of bars.
 *
 * Each is `{name, values, labels, text}`; a value of null is left out. `names` says what the two are.
 */
export function drawPairs(pairs, names, width) {
  const key = legend(names.map((name, i) => [shortened(name, width - 30), `c${i + 1}`]), width);
  const room = Math.max(...pairs.flatMap(({ labels }) => labels.map((label) => widthOf(label, 600)))) + 12;
  const most = Math.max(...pairs.flatMap(({ values }) => values.map((value) => value ?? 0)), 1e-300);
  const place = linear(0, most, 0, Math.max(60, width - room));
  const top = key.height + 8;
  const svg = s("svg", { viewBox: `0 0 ${width} ${top + pairs.length * ROW_PX}` }, key.marks);
  const marks = pairs.map(({ name, values, labels, text }, row) => {
    const y = top + row * ROW_PX;
    svg.append(s("text", { x: 0, y: y + 12, class: "name" }, shortened(name, width)));
    values.forEach((value, i) => {
      const at = y + 18 + i * (BAR_PX + 3);
      if (value === null) return;
      svg.append(
        s("rect", { x: 0, y: at, width: Math.max(place(value), 1), height: BAR_PX, rx: 2, class: `c${i + 1}` }),
        s("text", { x: place(value) + 7, y: at + 10, class: "value" }, labels[i]));
    });
    return { x: place(Math.max(...values.map((value) => value ?? 0))), left: 0, y: y + 30, text };
  });
  return { svg, marks };
}
