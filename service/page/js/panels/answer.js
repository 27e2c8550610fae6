// The answer in figures: throughput with its interval, the parts of a step, memory, and grounds.

import { h, redraw, s, say } from "../dom.js";
import { figure, warningList } from "../drawing/figure.js";
import { bytes, number, share, time } from "../drawing/numbers.js";
import { linear } from "../drawing/scale.js";

const BASES = {
  measured: "This very cell was measured.",
  calibrated: "Measured steps of this job on this kind of accelerator correct the answer.",
  transferred: "Measured steps of this job on other accelerators correct the answer.",
  interpolated: "The model has learned from cells on both sides of this one.",
  extrapolated: "The model goes beyond what it has learned from.",
  analytical: "Equations without anything learned.",
  default: "The roofline with typical efficiencies.",
};

const PARTS = [
  ["compute_s", "Compute", "c1"],
  ["exposed_communication_s", "Exposed communication", "c2"],
  ["input_stall_s", "Waiting for input", "c4"],
  ["overhead_s", "Overhead", "c7"],
];

/** Make the panel; `beside` stands under the headline. */
export function answerPanel(element, beside) {
  const step = figure({ name: "step", title: "Time of a step" });
  const memory = figure({ name: "memory", title: "Memory" });
  const text = h("div");
  const grounds = h("div");
  const warnings = h("div");
  const parts = h("div", { class: "parts", hidden: true }, step.element, memory.element, grounds);
  element.append(text, beside, parts, warnings);

  return {
    /** Show no answer; `again`, where there is one, asks the same once more. */
    clear(message, again = null) {
      const button = again && h("button", { type: "button", class: "small", id: "again", onclick: again }, "Ask again");
      redraw(text, h("p", { class: "note" }, message), button && h("p", { class: "row" }, button));
      warnings.replaceChildren();
      parts.hidden = true;
      beside.hidden = true;
    },
    show(estimate, label, request) {
      parts.hidden = false;
      beside.hidden = false;
      text.replaceChildren(...headline(estimate, label));
      step.show({ draw: (width) => drawStep(estimate, width), table: stepTable(estimate), request });
      memory.show({ draw: (width) => drawMemory(estimate.memory, width), table: memoryTable(estimate.memory), request, caption: memoryWords(estimate.memory) });
      grounds.replaceChildren(h("h3", {}, "What it rests on"), groundsOf(estimate));
      warnings.replaceChildren(...warningList(warningsOf(estimate)));
      say(`${number(estimate.throughput.samples_per_second)} samples per second.`);
    },
  };
}

function headline({ throughput, step_time_s }, label) {
  const { samples_per_second, low, high, coverage, tokens_per_second } = throughput;
  const beside = [
    h("span", {}, "between ", h("b", { id: "low" }, number(low)), " and ", h("b", { id: "high" }, number(high)),
      `, in ${share(coverage)} of cases`),
    h("span", {}, h("b", {}, time(step_time_s)), " a step"),
  ];
  if (tokens_per_second !== null) beside.push(h("span", {}, h("b", {}, number(tokens_per_second)), " tokens/s"));
  return [
    h("p", { class: "asked" }, label),
    h("div", { class: "headline" },
      h("p", { class: "big" }, h("span", { id: "throughput" }, number(samples_per_second)), h("small", {}, "samples/s")),
      beside.map((part) => h("p", { class: "beside" }, part))),
    strip(throughput),
  ];
}

/** Draw the interval as a strip from zero on; it repeats what the text says. */
function strip({ samples_per_second, low, high }) {
  const place = linear(0, high * 1.04, 0, 600);
  return s("svg", { viewBox: "0 0 600 14", height: "14", preserveAspectRatio: "none", width: "100%", "aria-hidden": "true" },
    s("rect", { x: 0, y: 4, width: 600, height: 6, rx: 3, class: "track" }),
    s("rect", { x: place(low), y: 4, width: Math.max(2, place(high) - place(low)), height: 6, class: "bar", opacity: 0.45 }),
    s("rect", { x: place(samples_per_second) - 1, y: 0, width: 2.5, height: 14, class: "bar" }));
}

function drawStep({ breakdown, step_time_s }, width) {
  const place = linear(0, step_time_s, 0, width);
  const svg = s("svg", { viewBox: `0 0 ${width} ${26 + PARTS.length * 20}` });
  const marks = [];
  let done = 0;
  PARTS.forEach(([key, label, colour], row) => {
    const value = breakdown[key];
    const y = 40 + row * 20;
    if (value > 0) {
      svg.append(s("rect", { x: place(done), y: 0, width: Math.max(1, place(value)), height: 16, class: colour }));
      marks.push({ x: place(done + value / 2), left: place(done), y: 8, text: `${label}\n${time(value)}, ${share(value / step_time_s)}` });
    }
    done += value;
    svg.append(s("rect", { x: 0, y: y - 9, width: 10, height: 10, rx: 2, class: colour }),
      s("text", { x: 16, y, class: "name" }, label),
      s("text", { x: width, y, "text-anchor": "end", class: "value" }, time(value)),
    );
  });
  return { svg, marks };
}

function stepTable({ breakdown, step_time_s }) {
  return {
    columns: [
      { key: "part", label: "Part", text: true },
      { key: "time_s", label: "Time", write: time },
      { key: "share", label: "Share", write: share },
    ],
    rows: PARTS.map(([key, label]) => ({ part: label, time_s: breakdown[key], share: breakdown[key] / step_time_s })),
  };
}

function drawMemory({ peak_bytes, capacity_bytes, fits }, width) {
  const most = Math.max(peak_bytes ?? 0, capacity_bytes) * (peak_bytes > capacity_bytes ? 1.05 : 1);
  const place = linear(0, most, 0, width);
  const svg = s("svg", { viewBox: `0 0 ${width} 46` },
    s("rect", { x: 0.5, y: 0.5, width: Math.max(1, place(capacity_bytes) - 1), height: 15, class: "track" }));
  const label = peak_bytes === null ? "peak not known" : `${bytes(peak_bytes)} at the peak`;
  if (peak_bytes !== null) {
    svg.append(s("rect", { x: 0, y: 0, width: place(peak_bytes), height: 16, class: fits === false ? "c5" : "c3" }),
      s("path", { d: `M${place(capacity_bytes) - 0.5} 0V20`, class: "axis" }));
  }
  svg.append(s("text", { x: 0, y: 34, class: "name" }, label),
    s("text", { x: width, y: 34, "text-anchor": "end" }, `of ${bytes(capacity_bytes)}`));
  return { svg, marks: [] };
}

function memoryWords({ fits, oom_probability }) {
  if (fits === null) return "Whether it fits is not known.";
  const verdict = fits ? "It fits." : "It does not fit.";
  return oom_probability === null ? verdict : `${verdict} Risk of running out of memory: ${share(oom_probability)}.`;
}

function memoryTable(memory) {
  return {
    columns: [
      { key: "peak_bytes", label: "Peak", write: bytes },
      { key: "capacity_bytes", label: "Capacity", write: bytes },
      { key: "fits", label: "Fits", write: (fits) => ({ true: "yes", false: "no" })[fits] ?? "–" },
      { key: "oom_probability", label: "Out of memory", write: share },
    ],
    rows: [memory],
  };
}

function groundsOf({ basis, out_of_distribution, nearest, model_version, unpriced_operators }) {
  const unpriced = Object.entries(unpriced_operators ?? {}).map(([name, count]) => `${name} (${count})`);
  const facts = [
    ["Basis", [h("span", { class: "chip", id: "basis" }, basis), h("p", { class: "note" }, BASES[basis] ?? "")]],
    ["Known ground", out_of_distribution
      ? h("span", { class: "chip warn" }, "out of distribution") : h("span", { class: "chip good" }, "yes")],
    ["Nearest", nearest?.length ? nearest.join(", ") : "–"],
    ["Model", model_version],
  ];
  if (unpriced.length) facts.push(["Not priced", unpriced.join(", ")]);
  return h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function warningsOf({ warnings, neighbours }) {
  return [...warnings, ...(neighbours ?? []).map(({ name, slowdown }) => `${name} on the same accelerators takes ${number(slowdown)} times as long.`)];
}
