// What an answer costs: how much of the arithmetic is used, money and energy.

import { h, redraw } from "../dom.js";
import { money, prefixed, share } from "../drawing/numbers.js";
import { costOfMillion, currencyInUse, loadPrices } from "../asking/prices.js";

const MILLION = 1e6;
const JOULES_OF_WH = 3600;

/** Make the line. */
export function costsOfAnswer() {
  const element = h("dl", { class: "costs", id: "costs", hidden: true });
  let shown = null;

  function present() {
    const { estimate, explanation, facts } = shown;
    const all = [utilisation(explanation), ...prices(estimate, facts), energy(estimate, facts)];
    redraw(element, all.filter(Boolean).map(([name, value, about]) => h("div", { title: about }, h("dt", {}, name), h("dd", {}, value))));
  }

  // A price that is typed beside the accelerators counts here as well.
  addEventListener("perfmodel-prices", () => shown && present());
  return {
    element,
    async ask({ estimate, facts }, explained, signal) {
      element.classList.add("waiting");
      const [explanation] = await Promise.all([explained, loadPrices()]);
      element.classList.remove("waiting");
      if (signal.aborted) return;
      shown = { estimate, explanation, facts };
      present();
    },
  };
}

function utilisation(explanation) {
  const used = explanation?.model_flops_utilisation ?? null;
  return used === null ? null : ["MFU", share(used), "Arithmetic of the model over the peaks of all accelerators; what is computed a second time counts once"];
}

function prices({ throughput }, { kinds }) {
  const cost = costOfMillion(kinds, throughput.samples_per_second);
  if (cost === null) return [];
  const currency = currencyInUse();
  const about = `For ${kinds.map(({ accelerator, whole_accelerators: whole }) => `${Number(whole.toPrecision(3))} x ${accelerator}`).join(" and ")}, by the hour`;
  const found = [["A million samples", money(cost, currency), about]];
  if (throughput.tokens_per_second) {
    found.push(["A million tokens", money(cost * (throughput.samples_per_second / throughput.tokens_per_second), currency), about]);
  }
  return found;
}

/** Energy at the most that the cards may draw: what a step really draws was not measured. */
function energy({ throughput }, { power_w: power }) {
  if (!power || !throughput.samples_per_second) return null;
  const tokens = throughput.tokens_per_second;
  const each = power / (tokens || throughput.samples_per_second);
  return [`Energy of a million ${tokens ? "tokens" : "samples"}`, `≤ ${prefixed((each * MILLION) / JOULES_OF_WH, "Wh")}`, `By the ${prefixed(power, "W")} that the accelerators may draw; hosts aside`];
}
