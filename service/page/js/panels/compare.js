// One job on many accelerators: throughput, and what a million samples cost.

import { drawBars } from "../drawing/bars.js";
import { h, redraw, say } from "../dom.js";
import { figure } from "../drawing/figure.js";
import { bytes, money, number, time } from "../drawing/numbers.js";
import { costOfMillion, loadPrices, priceOf, setPrice } from "../asking/prices.js";
import { countOf, onlyAccelerator, readPlacements, withAccelerator } from "../asking/read_placements.js";
import { ask, onlyTheLast, question } from "../service/service.js";

/** Make the panel; `changed` is called with what makes fields of the address from those before. */
export function comparePanel(changed) {
  const frame = figure({
    name: "compare", title: "Accelerators", whole: true,
    about: "The same job on the same hosts with other accelerators in them.",
  });
  const by = h("div", { class: "segments", role: "radiogroup", "aria-label": "Compare by" }, [["throughput", "Throughput"], ["cost", "Cost"]].map(([value, label]) =>
    h("label", {}, h("input", { type: "radio", name: "compare-by", value, checked: value === "throughput" }), h("span", {}, label))));
  const more = h("input", { id: "versus", list: "accelerators", spellcheck: "false", autocapitalize: "none", autocomplete: "off", placeholder: "Add an accelerator", "aria-label": "Add an accelerator" });
  const adding = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); add(); } }, more, h("button", { class: "small" }, "Add"));
  frame.controls.append(by, adding);
  const priced = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Accelerators with their prices" });
  frame.beside(priced);
  const next = onlyTheLast();
  let shown = null;
  by.addEventListener("change", () => shown && present());

  function add() {
    const name = more.value.trim();
    more.value = "";
    if (name) changed(({ versus }) => ({ versus: [...listed(versus), name].join(",") }));
  }

  function present() {
    const { rows, request, warnings } = shown;
    for (const row of rows) {
      Object.assign(row, priceOf(row.priced));
      row.cost_per_million_samples = costOfMillion(row.kinds, row.samples_per_second);
    }
    const cost = by.querySelector(":checked").value === "cost";
    const sorted = order(rows, cost);
    frame.show({ draw: (width) => drawBars(sorted.map((row) => barOf(row, cost)), width), table: tableOf(sorted), request, caption: caption(sorted, cost), warnings });
    redraw(priced, priceTable(sorted, reprice, remove));
  }

  function reprice(name, field) {
    const taken = setPrice(name, field.value);
    field.setAttribute("aria-invalid", String(!taken));
    field.title = taken ? "" : "A price is a number above 0, such as 1200.5.";
    if (!taken) return say(field.title);
    present();
    return priced.querySelector(`[data-price="${CSS.escape(name)}"]`)?.focus();
  }

  function remove(written) {
    changed(({ versus }) => ({ versus: listed(versus).filter((name) => !written.includes(name)).join(",") }));
  }

  return {
    element: frame.element,
    clear() {
      shown = null;
      priced.replaceChildren();
      frame.clear();
    },
    async ask({ job, facts, stated }, { versus }, running) {
      const signal = next(running);
      const asked = onlyAccelerator(facts);
      if (asked === null) return this.clear() ?? frame.note("A comparison is made for one kind of accelerator.");
      const names = [asked, ...listed(versus)];
      const placements = names.map((name) => withAccelerator(facts, name));
      frame.wait();
      try {
        const [read] = await Promise.all([readPlacements(placements, signal), loadPrices()]);
        const columns = columnsOf(names, placements, read, stated ? job.precision ?? "fp32" : null);
        // A question for each precision: an answer warns of nothing that is not shown.
        const { precision: _, ...plain } = job;
        const groups = [...Map.groupBy(columns, ({ precision }) => precision)].map(([precision, own]) => ({
          own, request: question("POST", "v1/matrix", {
            jobs: [precision === "fp32" ? plain : { ...plain, precision }], placements: own.map(({ placement }) => placement),
          }),
        }));
        const answers = await Promise.all(groups.map(({ request }) => ask(request, { signal })));
        shown = {
          request: groups.map(({ request }) => request),
          rows: groups.flatMap(({ own }, group) => own.map((column, i) => rowOf(answers[group], column, i))),
          warnings: [...new Set([...read, ...answers].flatMap((one) => one?.warnings ?? []))],
        };
      } catch (problem) {
        if (problem.name === "AbortError") return undefined;
        this.clear();
        return frame.fail(problem);
      }
      return present();
    },
  };
}

function listed(versus) {
  return [...new Set(versus.split(",").map((name) => name.trim()).filter(Boolean))];
}

/** Return each accelerator once, by whatever names it was written; the one that was asked is first. */
function columnsOf(names, placements, read, stated) {
  const columns = new Map();
  names.forEach((name, i) => {
    const facts = read[i];
    const accelerator = facts?.placement.nodes[0].accelerator ?? name;
    const kinds = facts?.kinds ?? [];
    const column = columns.get(accelerator) ?? {
      accelerator, kinds, written: [], asked: i === 0, placement: facts?.text ?? placements[i],
      count: facts ? countOf(facts) : null, priced: kinds[0]?.accelerator ?? name,
      precision: stated ?? facts?.usual_precision ?? "fp32",
    };
    column.written.push(name);
    columns.set(accelerator, column);
  });
  return [...columns.values()];
}

/** Return the row of an accelerator, of the job in the precision that it is computed in there. */
function rowOf(answer, column, i) {
  const unseen = new Set(answer.warnings.map((text) => UNSEEN.exec(text)?.[1]));
  const error = answer.errors.find(({ placement }) => placement === null || placement === i);
  const numbers = ["samples_per_second", "low", "high", "step_time_s", "compute_time_s", "sync_time_s", "peak_bytes", "fits", "basis"];
  return {
    ...column,
    ...Object.fromEntries(numbers.map((name) => [name, answer[name][0][i]])),
    unseen: unseen.has(column.priced),
    error: error?.detail ?? "",
  };
}

/** What the service says of an accelerator of which its model saw nothing. */
const UNSEEN = /^The model has learned from no step on (\S+):/;

/** Bases of answers that rest on steps of the accelerator, or of the job. */
const MEASURED = ["measured", "calibrated", "transferred", "interpolated"];

/** Tell whether anybody measured what an answer rests on. */
function rests(row) {
  return MEASURED.includes(row.basis);
}

/** Rank what an answer rests on: measured nearby, on this accelerator at all, or nowhere. */
function grade(row) {
  return rests(row) ? 2 : row.unseen ? 0 : 1;
}

/**
 * Best first of what was measured, then best first of what nobody measured, where both are there;
 * what has no answer, does not fit or has no price comes last.
 */
function order(rows, cost) {
  const rank = (row) => (cost ? -(row.cost_per_million_samples ?? Infinity) : row.samples_per_second ?? -Infinity);
  const fits = (row) => (row.fits === false || row.error ? 0 : 1);
  return [...rows].sort((a, b) => fits(b) - fits(a) || grade(b) - grade(a) || (rank(b) > rank(a) ? 1 : rank(b) < rank(a) ? -1 : 0));
}

function barOf(row, cost) {
  const { accelerator: name, samples_per_second: rate, low, high, fits, error, currency } = row;
  const colour = `${row.asked ? "asked" : "bar"}${rests(row) ? "" : " guessed"}`;
  const words = [name, error || `${number(rate)} samples/s, ${number(low)} to ${number(high)}`];
  if (!error) words.push(row.precision, row.basis);
  if (fits === false) words.push("does not fit");
  const price = money(row.cost_per_million_samples, currency);
  if (row.cost_per_million_samples !== null) words.push(`${price} a million samples`);
  const text = words.join("\n");
  const lacks = fits === false;
  const suffix = lacks ? ", does not fit" : "";
  if (error) return { name, value: null, label: "no answer", wrong: true, text };
  if (!cost) return { name, value: rate, low, high, label: number(rate) + suffix, colour, lacks, text };
  if (row.cost_per_million_samples === null) return { name, value: null, label: "no price", text };
  return {
    name, value: row.cost_per_million_samples, colour, lacks, text, label: price + suffix,
    low: costOfMillion(row.kinds, high), high: costOfMillion(row.kinds, low),
  };
}

/** Among what the best one is the best, by its grade, where others have less. */
const AMONG = ["", ", of accelerators that steps were learned from", ", of what was measured"];

function caption(rows, cost) {
  const best = rows[0];
  const wrong = [...new Set(rows.map(({ error }) => error).filter(Boolean))];
  if (wrong.length) return wrong.join(" ");
  if (best.fits === false) return "It fits on none of them.";
  const answered = rows.filter((row) => !row.error);
  const pale = answered.some((row) => !rests(row));
  const words = pale ? ` Pale: beyond what was measured${rests(best) ? "; these stand below the others" : ""}.` : "";
  const among = answered.some((row) => grade(row) < grade(best)) ? AMONG[grade(best)] : "";
  const several = new Set(rows.map(({ precision }) => precision)).size > 1;
  const own = several ? " Each in the precision that is usual on it." : "";
  if (!cost) return `Bars: samples/s, with the interval of each. Most: ${best.accelerator}${among}.${words}${own}`;
  return best.cost_per_million_samples === null ? "Enter what an hour of an accelerator costs." : `Bars: price of a million samples, with its interval. Least: ${best.accelerator}${among}.${words}${own}`;
}

function tableOf(rows) {
  return {
    columns: [
      { key: "accelerator", label: "Accelerator", text: true },
      { key: "count", label: "Count" },
      { key: "samples_per_second", label: "Samples/s", write: number },
      { key: "low", label: "Low", write: number },
      { key: "high", label: "High", write: number },
      { key: "step_time_s", label: "Step", write: time },
      { key: "compute_time_s", label: "Compute", write: time },
      { key: "sync_time_s", label: "Comm.", write: time },
      { key: "peak_bytes", label: "Peak", write: bytes },
      { key: "fits", label: "Fits", write: yes },
      { key: "precision", label: "Precision", text: true },
      { key: "basis", label: "Rests on", text: true },
      { key: "per_hour", label: "Price/h", write: number },
      { key: "currency", label: "Currency" },
      { key: "cost_per_million_samples", label: "Cost/M samples", write: number },
      { key: "error", label: "Error", text: true },
    ],
    rows,
  };
}

function yes(fits) {
  return { true: "yes", false: "no" }[fits] ?? "–";
}

function priceTable(rows, reprice, remove) {
  const currency = rows[0].currency;
  const heads = ["Accelerator", "Rests on", `${currency} an hour`, `${currency} a million samples`, ""];
  const body = rows.map((row) => h("tr", { title: row.error || null },
    h("td", {}, row.accelerator),
    h("td", { class: "text" }, row.error ? "–" : h("span", { class: `chip ${rests(row) ? "" : "quiet"}` }, row.basis)),
    h("td", {}, h("input", {
      value: row.per_hour ?? "", inputmode: "decimal", autocomplete: "off", "data-price": row.priced,
      "aria-label": `Price of an hour of ${row.priced}`,
      onchange: (event) => reprice(row.priced, event.target),
    })),
    h("td", {}, row.cost_per_million_samples === null ? "–" : number(Number(row.cost_per_million_samples.toPrecision(3)))),
    h("td", {}, row.asked ? null : h("button", { type: "button", class: "plain", "aria-label": `Leave ${row.accelerator} out`, onclick: () => remove(row.written) }, "✕"))));
  return h("table", { id: "prices" },
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head || h("span", { class: "visually-hidden" }, "Leave out"))))), h("tbody", {}, body));
}
