// What an answer is made of: one question fills the roofline, the operators and the factors.

import { h } from "../dom.js";
import { drawBars } from "../drawing/bars.js";
import { figure } from "../drawing/figure.js";
import { drawRatios } from "../drawing/ratios.js";
import { bytes, number, prefixed, share, time } from "../drawing/numbers.js";
import { ask, question } from "../service/service.js";
import { besides, colourOf, computes, drawRoofline, operatorName, rooflineTable } from "./roofline.js";

const MOST_BARS = 14;

/** Make the three pictures and the table of what was measured nearby. */
export function explainPanels() {
  const roofline = figure({
    name: "roofline", title: "Roofline",
    about: "Operators of a step on one accelerator by arithmetic intensity and rate; larger means more time.",
  });
  const operators = figure({ name: "operators", title: "Time by operator", about: "Of a step on one accelerator." });
  const factors = figure({ name: "factors", title: "From the bound to the answer", about: "Each factor multiplies the time of a step, from the roofline bound on." });
  const nearest = figure({ name: "nearest", title: "Measured nearby", about: "Measured steps that are most like this one, nearest first: measured over predicted time.", whole: true });
  const kind = h("div", { class: "segments", role: "radiogroup", "aria-label": "Operators by" }, [["classes", "Classes"], ["operators", "Operators"]].map(([value, label]) =>
    h("label", {}, h("input", { type: "radio", name: "operators-by", value, checked: value === "classes" }), h("span", {}, label))));
  operators.controls.append(kind);
  const frames = [roofline, operators, factors, nearest];
  let shown = null;
  kind.addEventListener("change", () => shown && presentOperators());

  function presentOperators() {
    const { answer, request } = shown;
    const single = kind.querySelector(":checked").value === "operators";
    const list = single ? answer.operators : answer.operator_classes;
    if (!list.length) return operators.note("There is nothing to show.");
    const colour = colourOf(answer.operator_classes);
    const total = answer.operator_classes.reduce((sum, { time_s }) => sum + time_s, 0);
    return operators.show({
      draw: (width) => drawBars(list.slice(0, MOST_BARS).map((one) => operatorBar(one, colour, total)), width),
      table: single ? operatorTable(list) : classTable(list), request,
      caption: list.length > MOST_BARS ? `The first ${MOST_BARS} of ${list.length}; the numbers have all.` : "",
    });
  }

  function present() {
    const { answer, request } = shown;
    const { operators: list, roofline: roof, contributions } = answer;
    if (list.some(computes)) {
      roofline.show({ draw: (width) => drawRoofline(answer, width), table: rooflineTable(answer), request, caption: besides(answer) });
    } else roofline.note(`No operator of it does arithmetic on ${roof.accelerator}.`);
    presentOperators();
    if (contributions.length) factors.show({ draw: (width) => drawBars(contributions.map(factorBar), width), table: factorTable(contributions), request });
    else factors.note("The answer has no factors.");
    const near = answer.nearest.map((one) => ({ ...one, measured_over_predicted: ratioOf(one) }));
    if (near.some((one) => one.measured_over_predicted !== null)) nearest.show({ draw: (width) => drawRatios(near.map(nearestBar), width), table: nearestTable(near), request });
    else nearest.note(unmeasured(near));
  }

  return {
    elements: frames.map(({ element }) => element),
    clear() {
      shown = null;
      frames.forEach((frame) => frame.clear());
    },
    async ask(job, placement, signal) {
      const request = question("POST", "v1/explain", { job, placement });
      frames.forEach((frame) => frame.wait());
      try {
        shown = { answer: await ask(request, { signal }), request };
      } catch (problem) {
        if (problem.name !== "AbortError") frames.forEach((frame) => frame.fail(problem));
        return null;
      }
      present();
      return shown.answer;
    },
  };
}

function operatorBar(one, colour, total) {
  const part = one.share ?? one.time_s / total;
  const name = one.phase ? operatorName(one) : one.name;
  const words = [name, `${time(one.time_s)}, ${share(part)}`, `${number(one.count)} times`];
  if (one.bound) words.push(`bound by ${one.bound}`);
  return { name, value: one.time_s, label: `${time(one.time_s)} · ${share(part)}`, colour: colour(one.operator_class ?? one.name), text: words.join("\n") };
}

function factorBar({ name, factor, step_time_s }, row, all) {
  const label = row === 0 ? time(step_time_s) : `${time(step_time_s)} · × ${number(factor)}`;
  return { name, value: step_time_s, label, colour: row === all.length - 1 ? "asked" : "bar", text: `${name}\n× ${number(factor)} → ${time(step_time_s)}` };
}

function unmeasured(near) {
  if (!near.length) return "Nothing that is like this job was measured.";
  return `No step to hold against the answer. Nearest workloads: ${[...new Set(near.map(({ workload }) => workload))].join(", ")}.`;
}

/** Some points are known by their ratio alone. */
function ratioOf({ measured_over_predicted: ratio, measured_s: measured, predicted_s: predicted }) {
  if (typeof ratio === "number") return ratio;
  return measured > 0 && predicted > 0 ? measured / predicted : null;
}

function nearestBar({ workload, accelerator, distance, measured_s, predicted_s, measured_over_predicted: ratio, source }) {
  const name = [workload, accelerator].filter(Boolean).join(" · ");
  const words = [name];
  if (measured_s !== null) words.push(`measured ${time(measured_s)}`);
  if (predicted_s !== null) words.push(`predicted ${time(predicted_s)}`);
  if (source) words.push(source);
  const label = [ratio === null ? null : `× ${number(ratio)}`, measured_s === null ? null : time(measured_s)].filter(Boolean).join(" · ");
  return { name, value: ratio, label: label || "–", colour: "c3", text: [...words, `distance ${number(distance)}`].join("\n") };
}

const BASIC = [
  { key: "count", label: "Count", write: number },
  { key: "time_s", label: "Time", write: time },
  { key: "flops", label: "FLOP", write: (value) => prefixed(value, "") },
  { key: "bytes", label: "Bytes", write: bytes },
];

function classTable(rows) {
  return { columns: [{ key: "name", label: "Class", text: true }, ...BASIC, { key: "share", label: "Share", write: share }], rows };
}

function operatorTable(list) {
  const rows = list.map((one) => ({ ...one, shape: one.shape?.join("x") ?? "" }));
  return { columns: [{ key: "name", label: "Operator", text: true }, { key: "operator_class", label: "Class", text: true }, { key: "phase", label: "Phase", text: true }, { key: "shape", label: "Shape", text: true }, ...BASIC, { key: "bound", label: "Bound by", text: true }], rows };
}

function factorTable(rows) {
  return { columns: [{ key: "name", label: "Factor", text: true }, { key: "factor", label: "×", write: number }, { key: "step_time_s", label: "Step", write: time }], rows };
}

function nearestTable(rows) {
  return {
    columns: [
      { key: "workload", label: "Workload", text: true }, { key: "accelerator", label: "Accelerator", text: true },
      { key: "distance", label: "Distance", write: number }, { key: "measured_s", label: "Measured", write: time },
      { key: "predicted_s", label: "Predicted", write: time }, { key: "measured_over_predicted", label: "Ratio", write: number },
      { key: "source", label: "Source", text: true },
    ],
    rows,
  };
}
