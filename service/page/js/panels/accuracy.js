// What was predicted against what was measured, and how the error went over time.

import { h, s } from "../dom.js";
import { figure, tableOf } from "../drawing/figure.js";
import { legend } from "../drawing/legend.js";
import { moment, number, prefixed, share, time } from "../drawing/numbers.js";
import { decades, linear, logarithmic, spaced, widthOf } from "../drawing/scale.js";
import { ask, onlyTheLast, question } from "../service/service.js";

const LIMIT = 500;
const NOTHING = "Nothing was observed yet. Steps that are sent to POST /v1/observations are compared here with what was predicted of them.";

/** Make the two pictures. */
export function accuracyPanels() {
  const scatter = figure({ name: "accuracy", title: "Predicted against measured", about: "Time of each observed step, with the interval of its prediction; on the line they agree." });
  const errors = figure({ name: "errors", title: "Error over time", about: "Predicted over measured time, as steps were observed." });
  const only = h("select", { id: "accuracy-accelerator" }, h("option", { value: "" }, "All"));
  const more = h("button", { type: "button", class: "small", hidden: true }, "Load more");
  const summary = h("div");
  scatter.controls.append(h("div", { class: "field" }, h("label", { for: "accuracy-accelerator" }, "Accelerator"), only), more);
  errors.element.insertBefore(summary, errors.element.querySelector(".below"));
  const next = onlyTheLast();
  let shown = { points: [], left_out: 0, next: null };

  function path(cursor) {
    const query = new URLSearchParams({ limit: LIMIT });
    if (only.value) query.set("accelerator", only.value);
    if (cursor) query.set("cursor", cursor);
    return `v1/accuracy?${query}`;
  }

  async function load(cursor = null) {
    const request = question("GET", path(cursor));
    const signal = next();
    for (const frame of [scatter, errors]) frame.wait();
    try {
      const answer = await ask(request, { signal });
      const before = cursor ? shown : { points: [], left_out: 0 };
      shown = { request, points: [...before.points, ...answer.points], left_out: before.left_out + answer.left_out, next: answer.next };
      present();
    } catch (problem) {
      if (problem.name === "AbortError") return;
      summary.replaceChildren();
      for (const frame of [scatter, errors]) frame.fail(problem);
    }
  }

  function present() {
    const { request, points, left_out } = shown;
    const usable = points.filter((p) => p.measured_s > 0 && p.predicted_s > 0);
    const groups = summarised(usable);
    if (!only.value) choices(only, groups);
    more.hidden = !shown.next;
    summary.replaceChildren();
    if (!usable.length) {
      for (const frame of [scatter, errors]) frame.note(without(shown));
      return;
    }
    const colour = colours(groups);
    const table = pointTable(usable);
    scatter.show({ draw: (width) => drawScatter(usable, colour, width), table, request, caption: leftOut(left_out) });
    errors.show({ draw: (width) => drawErrors(usable, colour, width), table, request, caption: "Above 1 the step was faster than predicted. Shaded: 10 % to either side." });
    summary.replaceChildren(tableOf(summaryTable(groups), "Error by accelerator"));
  }

  only.addEventListener("change", () => load());
  more.addEventListener("click", () => load(shown.next));
  return { elements: [scatter.element, errors.element], load };
}

/** Say why there is nothing to compare. */
function without({ left_out, next }) {
  if (left_out) return leftOut(left_out);
  return next ? "None of the latest observations can be compared; older ones may be." : NOTHING;
}

function leftOut(count) {
  return count ? `${number(count)} ${count === 1 ? "observation" : "observations"} cannot be compared: nothing predicts the job without what was observed of it, or not now.` : "";
}

/** Sum up all that is shown: the mean of |predicted / measured - 1|, and how many intervals held. */
function summarised(points) {
  const groups = new Map();
  for (const p of points) groups.set(p.accelerator, [...(groups.get(p.accelerator) ?? []), p]);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return [...groups].sort((a, b) => b[1].length - a[1].length).map(([accelerator, own]) => ({
    accelerator,
    count: own.length,
    mape: mean(own.map((p) => Math.abs(p.predicted_s / p.measured_s - 1))),
    coverage: mean(own.map((p) => Number(p.low_s <= p.measured_s && p.measured_s <= p.high_s))),
  }));
}

function choices(select, groups) {
  select.replaceChildren(h("option", { value: "" }, "All"), ...groups.map(({ accelerator }) => h("option", {}, accelerator)));
}

function colours(groups) {
  const names = groups.map(({ accelerator }) => accelerator);
  return (name) => {
    const place = names.indexOf(name);
    return place >= 0 && place < 6 ? place + 1 : 7;
  };
}

function drawScatter(points, colour, width) {
  const names = legend([...new Set(points.map((p) => p.accelerator))].sort((a, b) => colour(a) - colour(b)).map((name) => [name, `c${colour(name)}`]), width);
  const size = Math.max(260, Math.min(380, width * 0.66)) + names.height;
  const all = points.flatMap((p) => [p.measured_s, p.predicted_s]);
  const marks = decades(Math.min(...all), Math.max(...all), 7);
  const left = Math.max(...marks.map((mark) => widthOf(time(mark)))) + 14;
  const box = { left, right: width - 22, top: 10 + names.height, bottom: size - 40 };
  const x = logarithmic(marks[0], marks.at(-1), box.left, box.right);
  const y = logarithmic(marks[0], marks.at(-1), box.bottom, box.top);
  const inside = (value) => Math.min(Math.max(value, marks[0]), marks.at(-1));
  const svg = s("svg", { viewBox: `0 0 ${width} ${size}` }, names.marks,
    marks.map((mark) => [
      s("path", { d: `M${box.left} ${y(mark)}H${box.right}M${x(mark)} ${box.top}V${box.bottom}`, class: "grid" }),
      s("text", { x: box.left - 6, y: y(mark) + 4, "text-anchor": "end" }, time(mark))]),
    spaced(marks, x, time, { right: width }).map((mark) => s("text", { x: x(mark), y: box.bottom + 17, "text-anchor": "middle" }, time(mark))),
    s("text", { x: box.left, y: size - 4 }, "measured →  predicted ↑"),
    s("path", { d: `M${box.left} ${box.bottom}L${box.right} ${box.top}`, class: "ideal" }));
  points.forEach((p) => p.low_s && svg.append(s("path", { d: `M${x(p.measured_s)} ${y(inside(p.low_s))}V${y(inside(p.high_s))}`, class: `spread s${colour(p.accelerator)}` })));
  return { svg, marks: points.map((p) => dot(svg, p, x(p.measured_s), y(p.predicted_s), colour)) };
}

function drawErrors(points, colour, width) {
  const height = Math.max(220, Math.min(320, width * 0.5));
  const ordered = [...points].sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
  const ratios = ordered.map((p) => p.predicted_s / p.measured_s);
  const far = Math.max(1.25, ...ratios.map((ratio) => Math.max(ratio, 1 / ratio))) * 1.05;
  const marks = [1 / 8, 1 / 4, 1 / 2, 0.8, 1, 1.25, 2, 4, 8].filter((mark) => mark <= far && mark >= 1 / far);
  const box = { left: 48, right: width - 14, top: 10, bottom: height - 40 };
  const moments = ordered.map((p) => Date.parse(p.time));
  const single = moments[0] === moments.at(-1);
  const x = single ? () => (box.left + box.right) / 2 : linear(moments[0], moments.at(-1), box.left + 8, box.right - 8);
  const y = logarithmic(1 / far, far, box.bottom, box.top);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}` },
    s("rect", { x: box.left, y: y(1.1), width: box.right - box.left, height: y(1 / 1.1) - y(1.1), class: "band" }),
    marks.map((mark) => [s("path", { d: `M${box.left} ${y(mark)}H${box.right}`, class: mark === 1 ? "axis" : "grid" }), s("text", { x: box.left - 6, y: y(mark) + 4, "text-anchor": "end" }, `× ${number(mark)}`)]),
    s("text", { x: box.left, y: box.bottom + 17 }, moment(ordered[0].time)),
    single ? null : s("text", { x: box.right, y: box.bottom + 17, "text-anchor": "end" }, moment(ordered.at(-1).time)),
    s("text", { x: box.left, y: height - 4 }, "observed →  predicted / measured ↑"));
  return { svg, marks: ordered.map((p, i) => dot(svg, p, x(moments[i]), y(ratios[i]), colour)) };
}

function dot(svg, p, x, y, colour) {
  svg.append(s("circle", { cx: x, cy: y, r: 4.5, class: `dot c${colour(p.accelerator)}` }));
  const error = p.predicted_s / p.measured_s - 1;
  return {
    x, y,
    text: [p.label, p.placement, `measured ${time(p.measured_s)}, predicted ${time(p.predicted_s)}`, `${error < 0 ? "−" : "+"}${share(Math.abs(error))}`, moment(p.time)].join("\n"),
  };
}

function pointTable(points) {
  return {
    columns: [
      { key: "time", label: "Observed", write: moment, text: true }, { key: "label", label: "Job", text: true },
      { key: "placement", label: "Placement", text: true }, { key: "accelerator", label: "Accelerator", text: true },
      { key: "measured_s", label: "Measured", write: time }, { key: "predicted_s", label: "Predicted", write: time },
      { key: "low_s", label: "Low", write: time }, { key: "high_s", label: "High", write: time },
      { key: "ratio", label: "Ratio", write: number }, { key: "job", label: "Reference", text: true },
    ],
    rows: points.map((p) => ({ ...p, ratio: p.predicted_s / p.measured_s })),
  };
}

function summaryTable(groups) {
  return {
    columns: [
      { key: "accelerator", label: "Accelerator", text: true }, { key: "count", label: "Steps", write: (n) => prefixed(n, "") },
      { key: "mape", label: "Mean error", write: share }, { key: "coverage", label: "In interval", write: share },
    ],
    rows: groups,
  };
}
