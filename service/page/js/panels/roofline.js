// The roofline: what memory and arithmetic allow, and where the operators of a job stand below it.

import { s } from "../dom.js";
import { legend } from "../drawing/legend.js";
import { number, prefixed, share, time } from "../drawing/numbers.js";
import { decades, logarithmic, spaced, widthOf } from "../drawing/scale.js";

/** What takes less of the time, or hardly computes, would stretch the axes for nothing. */
const LEAST_SHARE = 0.0005;
const LEAST_INTENSITY = 0.01;
const COLOURS = ["c1", "c2", "c3", "c4", "c5", "c6"];

/** Return which colour a class has: six for those of most time, grey for all others. */
export function colourOf(classes) {
  const names = classes.map(({ name }) => name);
  return (name) => COLOURS[names.indexOf(name)] ?? "c7";
}

/** Name an operator: what it is, in which phase, on what shape. */
export function operatorName({ name, phase, shape }) {
  const phased = name.endsWith(`_${phase}`) ? name : `${name} ${phase}`;
  return shape?.length ? `${phased} ${shape.join("×")}` : phased;
}

/** Draw the roof and the operators that do arithmetic. */
export function drawRoofline({ operators, operator_classes: classes, roofline: roof }, width) {
  const total = classes.reduce((sum, { time_s }) => sum + time_s, 0);
  const points = drawn(operators, total);
  const xs = decades(Math.min(...points.map((p) => p.intensity), roof.ridge_intensity), Math.max(...points.map((p) => p.intensity), roof.ridge_intensity * 4), 7);
  const ys = decades(Math.min(...points.map((p) => p.achieved_flops_per_s), roof.peak_flops_per_s / 10), roof.peak_flops_per_s * 1.3, 7);
  const names = legend(namesOf(points, classes), width);
  const height = Math.max(260, Math.min(380, width * 0.66)) + names.height;
  const left = Math.max(...ys.map((y) => widthOf(prefixed(y, "")))) + 14;
  const box = { left, right: width - 18, top: 22 + names.height, bottom: height - 40 };
  const x = logarithmic(xs[0], xs.at(-1), box.left, box.right);
  const y = logarithmic(ys[0], ys.at(-1), box.bottom, box.top);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}` }, names.marks,
    ys.map((mark) => [s("path", { d: `M${box.left} ${y(mark)}H${box.right}`, class: "grid" }), s("text", { x: box.left - 6, y: y(mark) + 4, "text-anchor": "end" }, prefixed(mark, ""))]),
    xs.map((mark) => s("path", { d: `M${x(mark)} ${box.top}V${box.bottom}`, class: "grid" })),
    spaced(xs, x, tick, { right: width }).map((mark) => s("text", { x: x(mark), y: box.bottom + 17, "text-anchor": "middle" }, tick(mark))),
    s("text", { x: box.left, y: height - 4 }, "FLOP/byte →  FLOP/s ↑"),
    roofPath(roof, x, y, xs, ys),
    s("text", { x: box.right, y: box.top - 8, "text-anchor": "end", class: "name" }, `roof: ${prefixed(roof.peak_flops_per_s, "FLOP/s")} ${roof.precision}, ${prefixed(roof.memory_bytes_per_s, "B/s")}`));
  const colour = colourOf(classes);
  const marks = [...points].sort((a, b) => b.time_s - a.time_s).map((point) => {
    const at = { x: x(point.intensity), y: y(point.achieved_flops_per_s) };
    const radius = 3 + 17 * Math.sqrt(point.time_s / total);
    svg.append(s("circle", { cx: at.x, cy: at.y, r: radius.toFixed(1), class: `dot ${colour(point.operator_class)}`, opacity: 0.8 }));
    return { ...at, text: wordsOf(point, total) };
  });
  return { svg, marks };
}

/** Tell whether an operator does arithmetic that is worth the name. */
export function computes({ flops, intensity }) {
  return flops > 0 && intensity >= LEAST_INTENSITY;
}

function drawn(operators, total) {
  const arithmetic = operators.filter((one) => computes(one) && one.achieved_flops_per_s > 0);
  const large = arithmetic.filter(({ time_s }) => time_s >= LEAST_SHARE * total);
  return large.length ? large : arithmetic;
}

function tick(value) {
  return value >= 0.01 ? prefixed(value, "") : value.toExponential(0);
}

function roofPath({ peak_flops_per_s: peak, memory_bytes_per_s: memory, ridge_intensity: ridge }, x, y, xs, ys) {
  const start = Math.max(xs[0], ys[0] / memory);
  return s("path", { d: `M${x(start)} ${y(start * memory)}L${x(ridge)} ${y(peak)}H${x(xs.at(-1))}`, class: "roof" });
}

function namesOf(points, classes) {
  const colour = colourOf(classes);
  const seen = new Set(points.map((point) => point.operator_class));
  const entries = classes.filter(({ name }) => seen.has(name)).map(({ name }) => [name, colour(name)]);
  const own = entries.filter(([, mark]) => mark !== "c7");
  return own.length < entries.length ? [...own, ["others", "c7"]] : own;
}

function wordsOf(point, total) {
  return [
    `${operatorName(point)}, ${number(point.count)} times`,
    `${time(point.time_s)}, ${share(point.time_s / total)} of the step`,
    `${prefixed(point.achieved_flops_per_s, "FLOP/s")} at ${number(point.intensity)} FLOP/byte`,
    `bound by ${point.bound}`,
  ].join("\n");
}

/** Say what the picture cannot: time without arithmetic, and why something may be above the roof. */
export function besides({ operators, operator_classes: classes, roofline: roof }) {
  const total = classes.reduce((sum, { time_s }) => sum + time_s, 0);
  const idle = operators.filter((one) => !computes(one)).reduce((sum, { time_s }) => sum + time_s, 0);
  const ridge = `${roof.accelerator}: arithmetic is the limit above ${number(roof.ridge_intensity)} FLOP/byte.`;
  const above = operators.filter(({ achieved_flops_per_s: rate }) => rate > roof.peak_flops_per_s).length;
  return [
    ridge,
    idle > 0 ? `Operators with hardly any arithmetic take ${share(idle / total)} of the time.` : "",
    above ? `${above} above the roof: libraries may compute them at another precision than ${roof.precision}.` : "",
  ].filter(Boolean).join(" ");
}

/** Return the operators with the roof above each. */
export function rooflineTable({ operators, roofline: roof }) {
  const rows = operators.map((one) => ({
    ...one,
    shape: one.shape?.join("x") ?? "",
    roof_flops_per_s: Math.min(roof.peak_flops_per_s, one.intensity * roof.memory_bytes_per_s),
  }));
  const rate = (value) => prefixed(value, "FLOP/s");
  return {
    columns: [
      { key: "name", label: "Operator", text: true }, { key: "operator_class", label: "Class", text: true },
      { key: "phase", label: "Phase", text: true }, { key: "shape", label: "Shape", text: true }, { key: "count", label: "Count", write: number },
      { key: "intensity", label: "FLOP/byte", write: number },
      { key: "achieved_flops_per_s", label: "Reached", write: rate },
      { key: "roof_flops_per_s", label: "Roof", write: rate },
      { key: "time_s", label: "Time", write: time }, { key: "bound", label: "Bound by", text: true },
    ],
    rows,
  };
}
