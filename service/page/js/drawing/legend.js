// What the colours of a picture mean.

import { s } from "../dom.js";
import { widthOf } from "./scale.js";

const ROW_PX = 18;

/** Lay out pairs of a name and a colour above a picture; returns the marks and their height. */
export function legend(entries, width) {
  let [at, row] = [0, 0];
  const marks = entries.map(([name, colour]) => {
    const room = widthOf(name) + 26;
    if (at + room > width && at > 0) [at, row] = [0, row + 1];
    const left = at;
    at += room;
    const y = row * ROW_PX;
    return [s("circle", { cx: left + 5, cy: y + 7, r: 5, class: colour }), s("text", { x: left + 14, y: y + 11 }, name)];
  });
  return { marks, height: (row + 1) * ROW_PX };
}
