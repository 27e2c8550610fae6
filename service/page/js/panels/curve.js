// Throughput over the number of accelerators, against ideal scaling.

import { h, s } from "../dom.js";
import { figure } from "../drawing/figure.js";
import { bytes, number, prefixed, share, time } from "../drawing/numbers.js";
import { countOf, onlyAccelerator } from "../asking/read_placements.js";
import { decades, linear, logarithmic, spaced, steps, widthOf } from "../drawing/scale.js";
import { ask, onlyTheLast, question } from "../service/service.js";
import { count } from "../asking/state.js";

/** Make the panel; `changed` is called with what makes fields of the address from those before. */
export function curvePanel(changed) {
  const frame = figure({
    name: "curve", title: "Scaling",
    about: "Data parallel, hosts filled one by one. Dashed: as many times the throughput as accelerators.",
  });
  const most = h("select", { id: "most" }, [8, 16, 32, 64, 128, 256, 512, 1024].map((n) => h("option", {}, String(n))));
  const perHost = h("input", { id: "perhost", inputmode: "numeric", autocomplete: "off" });
  const scale = h("div", { class: "segments", role: "radiogroup", "aria-label": "Axes" }, ["log", "linear"].map((kind) =>
    h("label", {}, h("input", { type: "radio", name: "curve-axes", value: kind, checked: kind === "log" }), h("span", {}, kind))));
  frame.controls.append(
    h("div", { class: "field" }, h("label", { for: "most" }, "Up to"), most),
    h("div", { class: "field" }, h("label", { for: "perhost" }, "Per host"), perHost), scale);
  most.addEventListener("change", () => changed(() => ({ most: most.value })));
  perHost.addEventListener("change", () => changed(() => ({ perhost: perHost.value.trim() })));
  const next = onlyTheLast();
  let shown = null;
  scale.addEventListener("change", () => shown && present());

  function present() {
    const log = scale.querySelector(":checked").value === "log";
    const { answer, request, asked } = shown;
    frame.show({ draw: (width) => draw(answer, asked, width, log), table: tableOf(answer), request, caption: caption(answer, shown.options), warnings: answer.warnings });
  }

  return {
    element: frame.element,
    clear() {
      shown = null;
      frame.clear();
    },
    async ask({ job, facts, estimate }, state, running) {
      const signal = next(running);
      // The address may state another count than those that are offered.
      if (![...most.options].some(({ value }) => value === state.most)) most.append(h("option", {}, state.most));
      most.value = state.most;
      perHost.value = state.perhost;
      const accelerator = onlyAccelerator(facts);
      if (accelerator === null) return this.clear() ?? frame.note("A curve is drawn for one kind of accelerator.");
      const { nodes: [{ link }], network } = facts.placement;
      const body = { job, accelerator, most: count(state.most), accelerators_per_host: count(state.perhost) };
      if (network) body.network = network;
      if (link) body.link = link;
      const request = question("POST", "v1/curve", body);
      frame.wait();
      try {
        const answer = await ask(request, { signal });
        const asked = { count: countOf(facts), rate: estimate.throughput.samples_per_second, on: state.on };
        // What stands behind the hosts and their network.
        shown = { answer, request, asked, options: facts.text?.split(" ").slice(1).join(" ") };
      } catch (problem) {
        if (problem.name === "AbortError") return undefined;
        this.clear();
        return frame.fail(problem);
      }
      return present();
    },
  };
}

function caption({ counts, efficiency, fits }, options) {
  const last = counts.length - 1;
  const words = [`${share(efficiency[last])} of ideal at ${counts[last]}.`];
  const room = fits.indexOf(true);
  if (fits.every((fit) => fit === null)) words.push("Whether it fits is not known.");
  else if (room < 0) words.push("It does not fit.");
  else if (room > 0) words.push(`It fits from ${counts[room]} on.`);
  if (options) words.push(`Without “${options}” of the placement.`);
  return words.join(" ");
}

function draw(answer, asked, width, log) {
  const { counts, samples_per_second: rates, low, high, efficiency, fits } = answer;
  const height = Math.max(220, Math.min(330, width * 0.55));
  const ideal = counts.map((n) => (rates[0] / counts[0]) * n);
  const top = Math.max(...ideal, ...high, asked.rate);
  const bottom = log ? Math.min(...low, asked.rate) : 0;
  const marksY = log ? decades(bottom, top, 6) : steps(top);
  const left = Math.max(...marksY.map((y) => widthOf(prefixed(y, "")))) + 14;
  const box = { left, right: width - 12, top: 12, bottom: height - 40 };
  const x = (log ? logarithmic : linear)(log ? counts[0] : 0, Math.max(counts.at(-1), asked.count) * (counts.length > 1 ? 1 : 2), box.left + (log ? 8 : 0), box.right);
  const y = log ? logarithmic(marksY[0], marksY.at(-1), box.bottom, box.top) : linear(0, marksY.at(-1), box.bottom, box.top);
  const line = (values) => values.map((value, i) => `${i ? "L" : "M"}${x(counts[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const back = counts.map((n, i) => `L${x(n).toFixed(1)} ${y(low[i]).toFixed(1)}`).reverse().join("");
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}` },
    marksY.map((mark) => [s("path", { d: `M${box.left} ${y(mark)}H${box.right}`, class: "grid" }),
      s("text", { x: box.left - 6, y: y(mark) + 4, "text-anchor": "end" }, prefixed(mark, ""))]),
    s("text", { x: box.left, y: height - 4 }, "accelerators →  samples/s ↑"),
    s("path", { d: line(high) + back + "Z", class: "band" }),
    s("path", { d: line(ideal), class: "ideal" }),
    s("path", { d: line(rates), class: "line" }));
  spaced(counts, x, String, { right: width }).forEach((n) => svg.append(
    s("text", { x: x(n), y: box.bottom + 17, "text-anchor": "middle" }, String(n))));
  const marks = counts.map((n, i) => {
    svg.append(s("circle", { cx: x(n), cy: y(rates[i]), r: 4, class: "dot c1" }));
    const words = [`${n} accelerators: ${number(rates[i])} samples/s`, `${number(low[i])} to ${number(high[i])}`, `${share(efficiency[i])} of ideal`];
    if (fits[i] === false) words.push("does not fit");
    return { x: x(n), y: y(rates[i]), text: words.join("\n") };
  });
  const at = { x: x(asked.count), y: y(asked.rate) };
  svg.append(s("circle", { cx: at.x, cy: at.y, r: 6, class: "dot asked" }));
  // What was asked may lie beside the curve: other hosts, a plan, a part of each accelerator.
  marks.push({ ...at, text: `Asked, ${asked.on}: ${number(asked.rate)} samples/s` });
  return { svg, marks };
}

function tableOf(answer) {
  const names = ["counts", "samples_per_second", "low", "high", "efficiency", "step_time_s", "compute_time_s", "sync_time_s", "exposed_communication_s", "peak_bytes", "fits", "basis"];
  const key = (name) => (name === "counts" ? "count" : name);
  const writers = { samples_per_second: number, low: number, high: number, efficiency: share, step_time_s: time, compute_time_s: time, sync_time_s: time, exposed_communication_s: time, peak_bytes: bytes, fits: (fits) => ({ true: "yes", false: "no" })[fits] ?? "–" };
  const heads = { counts: "Accelerators", samples_per_second: "Samples/s", low: "Low", high: "High", efficiency: "Of ideal", step_time_s: "Step", compute_time_s: "Compute", sync_time_s: "Comm.", exposed_communication_s: "Exposed comm.", peak_bytes: "Peak", fits: "Fits", basis: "Basis" };
  return {
    columns: names.map((name) => ({ key: key(name), label: heads[name], write: writers[name] })),
    rows: answer.counts.map((_, i) => Object.fromEntries(names.map((name) => [key(name), answer[name][i]]))),
  };
}
