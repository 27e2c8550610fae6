// What an answer costs: how much of the arithmetic is used, money and energy.

import { h, redraw } from "../dom.js";
import { money, prefixed, share } from "../drawing/numbers.js";
import { countOf } from "../asking/placement.js";
import { costOfMillion, loadPrices, priceOf } from "../asking/prices.js";

const MILLION = 1e6;
const JOULES_OF_WH = 3600;

/** Make the line. */
export function costsOfAnswer() {
  const element = h("dl", { class: "costs", id: "costs", hidden: true });
  let shown = null;

  function present() {
    const { estimate, explanation, parts, card } = shown;
    const facts = [utilisation(estimate, explanation), ...prices(estimate, parts, card), energy(estimate, parts, card)];
    redraw(element, facts.filter(Boolean).map(([name, value, about]) => h("div", { title: about }, h("dt", {}, name), h("dd", {}, value))));
  }

  // A price that is typed beside the accelerators counts here as well.
  addEventListener("perfmodel-prices", () => shown && present());
  return {
    element,
    async ask({ estimate, explained, parts, card }, signal) {
      const [explanation] = await Promise.all([explained, loadPrices()]);
      if (signal.aborted) return;
      shown = { estimate, explanation, parts, card };
      present();
    },
  };
}

/** Model FLOP utilisation: arithmetic of one replica's step over the peak of its accelerator. */
function utilisation({ step_time_s }, explanation) {
  if (!explanation || !(step_time_s > 0)) return null;
  const flops = explanation.operator_classes.reduce((sum, one) => sum + one.flops, 0);
  const used = flops / (step_time_s * explanation.roofline.peak_flops_per_s);
  if (!(flops > 0)) return null;
  return ["MFU", share(used), `${prefixed(flops / step_time_s, "FLOP/s")} of ${prefixed(explanation.roofline.peak_flops_per_s, "FLOP/s")} on each accelerator`];
}

function prices({ throughput }, parts, card) {
  const name = card?.name ?? parts?.accelerator;
  const { per_hour, currency } = name ? priceOf(name) : { per_hour: null };
  const cost = parts && costOfMillion({ per_hour, count: countOf(parts), samples_per_second: throughput.samples_per_second });
  if (cost === null || cost === undefined || !Number.isFinite(cost)) return [];
  const about = `${per_hour} ${currency} an hour of each accelerator`;
  const found = [["A million samples", money(cost, currency), about]];
  if (throughput.tokens_per_second) {
    found.push(["A million tokens", money(cost * (throughput.samples_per_second / throughput.tokens_per_second), currency), about]);
  }
  return found;
}

/** Energy at the most that the cards may draw: what a step really draws was not measured. */
function energy({ throughput }, parts, card) {
  const count = parts && countOf(parts);
  if (!count || !card?.tdp_w || !throughput.samples_per_second) return null;
  const tokens = throughput.tokens_per_second;
  const each = (count * card.tdp_w) / (tokens || throughput.samples_per_second);
  return [`Energy of a million ${tokens ? "tokens" : "samples"}`, `≤ ${prefixed((each * MILLION) / JOULES_OF_WH, "Wh")}`, `${count} times the ${card.tdp_w} W that a card may draw; hosts aside`];
}
