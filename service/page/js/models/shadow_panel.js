// A version that answers beside the one that serves: how far they differ, and who was right.

import { h, redraw, s } from "../dom.js";
import { figure, tableOf } from "../drawing/figure.js";
import { moment, number, share, time } from "../drawing/numbers.js";
import { linear, shortened, spaced, widthOf } from "../drawing/scale.js";
import { shortName } from "./facts.js";

const ROW_PX = 30;
const DIMENSIONS = [["device", "Device"], ["mode", "Mode"], ["family", "Family"], ["placement_kind", "Placement"]];
const STAGES = {
  waiting: "waits for questions to be compared", running: "is being compared", done: "all that was asked is compared",
  "given up": "was given up after it had failed too often; let it shadow again to try once more", none: "was never a shadow",
};
const MOST_ROWS = 16;
/** Where the axis may have marks. */
const RATIOS = [0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 5, 10, 20];

/** Make the panel. */
export function shadowPanel() {
  const frame = figure({ name: "shadow", title: "Beside the version that serves", whole: true, about: "What the version would have answered to the questions that were asked last: time of a step against that by the version that serves, without what was observed of the job. Half of the questions lie on either side of a dot, eight of ten on its line." });
  const by = h("select", { id: "shadow-by" }, DIMENSIONS.map(([value, label]) => h("option", { value }, label)));
  const status = h("p", { class: "asked", role: "status" });
  const details = h("div", { class: "details" });
  frame.controls.append(h("div", { class: "field" }, h("label", { for: "shadow-by" }, "Group by"), by), status);
  frame.element.insertBefore(details, frame.element.querySelector(".below"));
  let shown = null;
  by.addEventListener("change", () => shown && present());

  function present() {
    const { report, request } = shown;
    const groups = report.groups.filter(({ dimension }) => dimension === "all" || dimension === by.value).slice(0, MOST_ROWS);
    status.textContent = statusOf(report);
    const usable = groups.filter(({ compared }) => compared > 0);
    if (usable.length) frame.show({ draw: (width) => drawRatios(usable, width), table: groupTable(report.groups), request, caption: caption(report) });
    else frame.note(report.groups.length ? "No question has an answer of both that does not rest on what was observed." : emptyNote(report));
    redraw(details, detailsOf(report, groups));
  }

  return {
    element: frame.element,
    wait: () => frame.wait(),
    clear() {
      shown = null;
      status.textContent = "";
      details.replaceChildren();
      frame.clear();
    },
    note(message) {
      this.clear();
      frame.note(message);
    },
    fail(problem) {
      this.clear();
      frame.fail(problem);
    },
    show(report, request) {
      shown = { report, request };
      present();
    },
  };
}

function statusOf({ model, against, stage, waiting, compared_at, problem }) {
  const words = [`${shortName(model)} ${STAGES[stage] ?? stage}`];
  if (against) words.push(`against ${shortName(against)}`);
  if (waiting && stage !== "none") words.push(`${number(waiting)} wait`);
  if (compared_at) words.push(`last compared ${moment(compared_at)}`);
  return `${words.join(", ")}.${problem ? ` ${problem}` : ""}`;
}

function emptyNote({ stage }) {
  if (stage === "none") return "It never answered beside the version that serves. “Let it shadow” lets it.";
  return "Nothing was compared yet. What is asked from now on is.";
}

function caption({ groups, failed }) {
  const [all] = groups;
  const words = [`${number(all.compared)} questions; on average ${percent(all.mean_distance)} apart, ${percent(all.answered_distance)} as people would be answered.`];
  if (all.observed) words.push(`Where steps were measured (${number(all.observed)}) the shadow is nearer to ${number(all.shadow_nearer)}: error ${percent(all.shadow_error)} against ${percent(all.serving_error)}.`);
  if (failed.length) words.push(`It fails on ${number(all.shadow_failed)} that the other answers.`);
  return words.join(" ");
}

/** Write ln of a ratio as a distance. */
function percent(logarithm) {
  return logarithm === null ? "–" : share(Math.expm1(logarithm));
}

/** Write ln of a ratio with its direction: +12 %. */
function signed(logarithm) {
  if (logarithm === null || logarithm === undefined) return "–";
  const value = Math.expm1(logarithm);
  return `${value < 0 ? "−" : "+"}${share(Math.abs(value))}`;
}

function drawRatios(groups, width) {
  const longest = Math.min(Math.max(...groups.map((group) => widthOf(nameOf(group)))) + 14, width * 0.36);
  const far = Math.max(0.05, ...groups.flatMap(({ low, high, median }) => [low, high, median].map((value) => Math.abs(value ?? 0)))) * 1.08;
  const box = { left: longest, right: width - 64, top: 6, bottom: groups.length * ROW_PX + 6 };
  const x = linear(-far, far, box.left, box.right);
  const ticks = RATIOS.map(Math.log).filter((value) => Math.abs(value) <= far && (value === 0 || Math.abs(value) >= far / 8));
  const svg = s("svg", { viewBox: `0 0 ${width} ${box.bottom + 42}` },
    ticks.map((tick) => s("path", { d: `M${x(tick)} ${box.top}V${box.bottom}`, class: tick === 0 ? "axis" : "grid" })),
    spaced(ticks, x, tickOf, { left: box.left - 20, right: width }).map((tick) => s("text", { x: x(tick), y: box.bottom + 16, "text-anchor": "middle" }, tickOf(tick))),
    s("text", { x: box.left, y: box.bottom + 36 }, shortened("time of a step by the shadow against the other →", width - box.left)));
  const marks = groups.map((group, row) => {
    const y = box.top + row * ROW_PX + ROW_PX / 2;
    svg.append(
      s("text", { x: box.left - 10, y: y + 4, "text-anchor": "end", class: "name" }, shortened(nameOf(group), longest - 12)),
      s("path", { d: `M${x(group.low)} ${y}H${x(group.high)}M${x(group.low)} ${y - 4}v8M${x(group.high)} ${y - 4}v8`, class: "whisker" }),
      s("circle", { cx: x(group.median), cy: y, r: 5, class: `dot c${group.dimension === "all" ? 2 : 1}` }),
      s("text", { x: width - 58, y: y + 4, class: "value" }, signed(group.median)));
    return { x: x(group.median), left: x(group.low), y, text: wordsOf(group) };
  });
  return { svg, marks };
}

/** Write the place of a mark of the axis, which is a round share. */
function tickOf(logarithm) {
  const percent = Math.round(100 * Math.expm1(logarithm));
  return percent === 0 ? "same" : `${percent < 0 ? "−" : "+"}${Math.abs(percent)} %`;
}

function nameOf({ dimension, name }) {
  return dimension === "all" ? "all questions" : name;
}

function wordsOf(group) {
  const words = [nameOf(group), `${number(group.compared)} questions, median ${signed(group.median)}`, `eight of ten from ${signed(group.low)} to ${signed(group.high)}`, `farthest ${signed(group.largest)}`];
  if (group.shadow_failed) words.push(`${group.shadow_failed} not answered`);
  if (group.observed) words.push(`measured ${group.observed}: error ${percent(group.shadow_error)} against ${percent(group.serving_error)}`);
  return words.join("\n");
}

function groupTable(groups) {
  return {
    columns: [
      { key: "dimension", label: "By", text: true }, { key: "name", label: "Group", text: true },
      { key: "asked", label: "Questions", write: number }, { key: "compared", label: "Compared", write: number },
      { key: "low", label: "10 %", write: signed }, { key: "median", label: "Median", write: signed }, { key: "high", label: "90 %", write: signed },
      { key: "largest", label: "Farthest", write: signed }, { key: "shadow_failed", label: "Fails", write: number },
      { key: "observed", label: "Measured", write: number }, { key: "serving_error", label: "Error before", write: percent }, { key: "shadow_error", label: "Error", write: percent },
    ],
    rows: groups,
  };
}

function detailsOf(report, groups) {
  const parts = [];
  const measured = groups.filter(({ observed }) => observed > 0);
  if (measured.length) parts.push(part("Who was right", measured, [
    { key: "name", label: "Group", text: true }, { key: "observed", label: "Measured", write: number },
    { key: "serving_error", label: "Error of the one that serves", write: percent }, { key: "shadow_error", label: "Error of the shadow", write: percent },
    { key: "shadow_nearer", label: "Shadow nearer", write: number }]));
  if (report.failed.length) parts.push(part("Questions that the shadow alone fails on", report.failed, [...QUESTION, { key: "problem", label: "Why", text: true }]));
  if (report.most_different.length) parts.push(part("The most different", report.most_different, [...QUESTION, ...TIMES, { key: "ratio", label: "Difference", write: signed }, { key: "answered_ratio", label: "As answered", write: signed }]));
  if (report.observed.length) parts.push(part("Measured, farthest from the shadow first", report.observed, [...QUESTION, ...TIMES, { key: "measured_s", label: "Measured", write: time }, { key: "measured_since", label: "Since it was trained", write: (yes) => (yes ? "yes" : "no") }]));
  return parts;
}

const QUESTION = [{ key: "label", label: "Job", text: true }, { key: "placement", label: "Placement", text: true }];
const TIMES = [{ key: "serving_s", label: "Serves", write: time }, { key: "shadow_s", label: "Shadow", write: time }];

function part(title, rows, columns) {
  return h("div", {}, h("h3", {}, title), tableOf({ columns, rows }, title));
}
