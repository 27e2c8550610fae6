// Whether answers still fit what is observed: the error over time, and alarms with what to do.

import { h, redraw, s } from "../dom.js";
import { figure } from "../drawing/figure.js";
import { legend } from "../drawing/legend.js";
import { moment, number, share } from "../drawing/numbers.js";
import { linear, shortened, steps, widthOf } from "../drawing/scale.js";
import { ask, question } from "../service/service.js";

const MOST_LINES = 6;
const ALL = "all";

/** Make the panel. */
export function driftPanel() {
  const frame = figure({ name: "drift", title: "Drift", whole: true, about: "How far answers were from what was observed afterwards, as steps came in." });
  const alarms = h("div", { class: "alarms" });
  frame.element.insertBefore(alarms, frame.element.querySelector(".below"));

  function present(drift, request) {
    const lines = linesOf(drift.points);
    redraw(alarms, alarmsOf(drift));
    if (!lines.length) frame.note(drift.waiting ? `${number(drift.waiting)} observations are being compared.` : "Nothing was observed yet.");
    else frame.show({ draw: (width) => drawLines(lines, width), table: pointTable(drift.points), request, caption: caption(drift) });
  }

  return {
    element: frame.element,
    /** Ask and show; a service that looks for no drift has no panel. */
    async load() {
      const request = question("GET", "v1/drift");
      frame.wait();
      try {
        present(await ask(request), request);
        frame.element.hidden = false;
      } catch (problem) {
        frame.element.hidden = problem.status === 404;
        alarms.replaceChildren();
        frame.fail(problem);
      }
    },
  };
}

/** Return a distance between logarithms as the share that it is. */
function asShare(logarithm) {
  return Math.expm1(logarithm);
}

/** Write a distance between logarithms as a share. */
function distance(logarithm) {
  return typeof logarithm === "number" ? share(asShare(logarithm)) : share(null);
}

function linesOf(points) {
  const groups = new Map();
  for (const point of points) {
    const name = point.kind === ALL ? ALL : point.value;
    groups.set(name, [...(groups.get(name) ?? []), { ...point, error: asShare(point.error), at: (Date.parse(point.begins_at) + Date.parse(point.ends_at)) / 2 }]);
  }
  const counted = [...groups].map(([name, own]) => ({ name, points: own, count: own.reduce((sum, one) => sum + one.count, 0) }));
  counted.sort((one, other) => Number(other.name === ALL) - Number(one.name === ALL) || other.count - one.count);
  return counted.slice(0, MOST_LINES);
}

function drawLines(lines, width) {
  const key = legend(lines.map(({ name }, i) => [shortened(name, width - 30), `c${i + 1}`]), width);
  const height = key.height + Math.max(200, Math.min(300, width * 0.35));
  const all = lines.flatMap(({ points }) => points);
  const marks = steps(Math.max(...all.map(({ error }) => error)));
  const box = { left: Math.max(...marks.map((mark) => widthOf(share(mark)))) + 12, right: width - 14, top: key.height + 10, bottom: height - 24 };
  const [first, last] = [Math.min(...all.map(({ at }) => at)), Math.max(...all.map(({ at }) => at))];
  const x = first === last ? () => (box.left + box.right) / 2 : linear(first, last, box.left + 6, box.right - 6);
  const y = linear(0, marks.at(-1), box.bottom, box.top);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}` }, key.marks,
    marks.map((mark) => [s("path", { d: `M${box.left} ${y(mark)}H${box.right}`, class: mark ? "grid" : "axis" }), s("text", { x: box.left - 6, y: y(mark) + 4, "text-anchor": "end" }, share(mark))]),
    s("text", { x: box.left, y: height - 4 }, moment(new Date(first).toISOString())),
    first === last ? null : s("text", { x: box.right, y: height - 4, "text-anchor": "end" }, moment(new Date(last).toISOString())));
  const read = lines.flatMap(({ name, points }, i) => {
    svg.append(s("path", { d: points.map(({ at, error }, n) => `${n ? "L" : "M"}${x(at)} ${y(error)}`).join(""), class: `spread s${i + 1}` }));
    return points.map((point) => {
      svg.append(s("circle", { cx: x(point.at), cy: y(point.error), r: 4, class: `dot c${i + 1}` }));
      return { x: x(point.at), y: y(point.error), text: [name, `error ${share(point.error)}, ${number(point.count)} steps`, moment(point.begins_at)].join("\n") };
    });
  });
  return { svg, marks: read };
}

function caption({ compared, left_out: left, waiting, groups }) {
  const all = groups.find(({ kind }) => kind === ALL);
  const words = [`${number(compared)} observations compared.`];
  if (all) words.push(`Mean error ${distance(all.error)}, ${share(all.coverage)} inside the interval.`);
  if (left) words.push(`${number(left)} had no answer.`);
  if (waiting) words.push(`${number(waiting)} wait.`);
  return words.join(" ");
}

function pointTable(points) {
  return {
    columns: [
      { key: "kind", label: "By", text: true }, { key: "value", label: "Group", text: true },
      { key: "begins_at", label: "From", write: moment, text: true }, { key: "ends_at", label: "To", write: moment, text: true },
      { key: "count", label: "Steps", write: number }, { key: "error", label: "Error", write: distance }, { key: "bias", label: "Bias (ln)", write: number },
      { key: "error_now", label: "Error by what serves now", write: distance },
    ],
    rows: points,
  };
}

function alarmsOf({ alarms, problems }) {
  const wrong = problems?.length ? [h("ul", { class: "warnings" }, problems.map((text) => h("li", {}, text)))] : [];
  if (!alarms.length) return wrong;
  return [...wrong, h("h3", {}, "Alarms"), h("ul", { class: "entries" }, alarms.map(entry))];
}

function entry({ state, kind, value, shift, count, since, acknowledged_by: known, ended_because: why, remedies }) {
  const longer = Math.expm1(shift);
  return h("li", {},
    h("p", {}, h("span", { class: `chip ${state === "open" ? "bad" : "quiet"}` }, state), " ", h("b", {}, value), ` (${kind.replace("_", " ")}): ${share(Math.abs(longer))} ${longer < 0 ? "faster" : "slower"} than predicted since ${moment(since)}, ${number(count)} steps.${known ? ` Known to ${known}.` : ""}${why ? ` ${why}` : ""}`),
    state === "open" ? remedies.map((one) => [h("p", { class: "note" }, one.why), h("pre", {}, one.command)]) : null);
}
