// Models that are being learned anew, how far each is, and what became of those before.

import { h } from "../dom.js";
import { moment, share } from "../drawing/numbers.js";
import { ask, question } from "../service/service.js";
import { shortName } from "./facts.js";

const CHIPS = { running: "", waiting: "", done: "good", failed: "bad", refused: "bad", cancelled: "quiet" };
const UNDER_WAY = ["running", "waiting"];

/** Make the panel. */
export function retrainingsPanel() {
  const body = h("div");
  const element = h("section", { class: "card whole", id: "retrainings", hidden: true, "aria-labelledby": "retrainings-title" },
    h("header", {}, h("h2", { id: "retrainings-title" }, "Retrainings")),
    h("p", { class: "about" }, "Each learns a version anew from what is there, and lets a gate decide about it."), body);

  return {
    element,
    /** Ask and show; returns whether any is under way. A service that retrains nothing has no panel. */
    async load() {
      try {
        const { retrainings } = await ask(question("GET", "v1/retrain"));
        element.hidden = false;
        body.replaceChildren(retrainings.length ? h("ul", { class: "entries" }, retrainings.map(entry)) : h("p", { class: "note" }, "There was none yet. `perfmodel retrain` starts one."));
        return retrainings.some(({ state }) => UNDER_WAY.includes(state));
      } catch (problem) {
        element.hidden = problem.status === 404;
        body.replaceChildren(h("p", { class: "error" }, problem.message));
        return false;
      }
    },
  };
}

function entry(one) {
  const running = UNDER_WAY.includes(one.state);
  return h("li", {},
    h("p", {}, h("span", { class: `chip ${CHIPS[one.state] ?? "quiet"}` }, one.state), ` ${one.model}, begun ${moment(one.created_at)} by ${one.trigger}${one.why ? `: ${one.why}` : ""}`),
    running ? h("p", { class: "row" }, h("progress", { max: 1, value: one.fraction, "aria-label": `Progress of ${one.model}` }), h("span", { class: "note" }, `${share(one.fraction)}, ${[one.phase, one.progress].filter(Boolean).join(": ")}`)) : null,
    one.version ? h("p", { class: "note" }, `Version ${shortName(one.version)}.`) : null,
    one.reason ? h("p", { class: "note" }, one.reason) : null,
    one.decision?.report ? h("details", {}, h("summary", {}, "What the gate said"), h("pre", {}, one.decision.report)) : null);
}
