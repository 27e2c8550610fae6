// Models that are being learned anew, how far each is, and what the gate said of those before.

import { h, redraw } from "../dom.js";
import { tableOf } from "../drawing/figure.js";
import { moment, number, share } from "../drawing/numbers.js";
import { ask, question } from "../service/service.js";
import { shortName } from "./facts.js";

const CHIPS = { running: "", waiting: "warn", done: "good", failed: "bad", refused: "bad" };
const UNDER_WAY = ["running", "waiting"];
const TRIGGERS = { hand: "by hand", cron: "by the clock", count: "by new measurements", drift: "by an alarm" };
const SHOWN = 10;
const [FORBIDDEN, ABSENT] = [403, 404];

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
        const { retrainings } = await ask(question("GET", `v1/retrain?limit=${SHOWN}`));
        const open = new Set([...body.querySelectorAll("details[open]")].map(({ id }) => id));
        element.hidden = false;
        redraw(body, retrainings.length ? h("ul", { class: "entries" }, retrainings.map((one) => entry(one, open))) : h("p", { class: "note" }, "There was none yet. `perfmodel retrain` starts one."));
        return retrainings.some(({ state }) => UNDER_WAY.includes(state));
      } catch (problem) {
        element.hidden = problem.status === ABSENT;
        body.replaceChildren(h("p", { class: problem.status === FORBIDDEN ? "note" : "error" }, problem.message));
        return false;
      }
    },
  };
}

function entry(one, open) {
  const { state, model, trigger, why, by, created_at: begun, version, reason, decision } = one;
  return h("li", {},
    h("p", {}, h("span", { class: `chip ${CHIPS[state] ?? "quiet"}` }, state), ` ${model}, begun ${moment(begun)} ${TRIGGERS[trigger] ?? trigger}${by ? ` (${by})` : ""}${why ? `: ${why}` : ""}`),
    UNDER_WAY.includes(state) ? progress(one) : null,
    version ? h("p", { class: "note" }, `Version ${shortName(version)}`) : null,
    reason ? h("p", { class: "note" }, reason) : null,
    decision ? judgement(one, open) : null);
}

function progress({ model, fraction, phase, phases, progress: last }) {
  const done = Object.values(phases).filter((word) => word === "done").length;
  return h("p", { class: "row" },
    h("progress", { max: 1, value: fraction, "aria-label": `Progress of ${model}` }),
    h("span", { class: "note" }, `${share(fraction)}, ${number(done)} of ${number(Object.keys(phases).length)} phases${phase ? `; ${phase}` : ""}${last ? `: ${last}` : ""}`));
}

/** Return what the gate said, folded; it stays open while the panel is filled anew. */
function judgement({ id, decision }, open) {
  const { accepted, findings, groups, serving } = decision;
  const name = `gate-${id}`;
  return h("details", { id: name, open: open.has(name) },
    h("summary", {}, `What the gate said: ${accepted ? "nothing against it" : `${number(findings.length)} against it`}`),
    findings.length ? h("ul", { class: "warnings" }, findings.map(({ check, where, detail }) => h("li", {}, `${check}${where ? ` (${where})` : ""}: ${detail}`))) : null,
    groups.length ? tableOf({ columns: COLUMNS, rows: groups }, `What the gate compared with ${serving ?? "nothing"}`) : null,
    groups.some(({ assumed }) => assumed) ? h("p", { class: "note" }, "Units are families, or models of the one family. *: too few to show the chance of training, which is assumed.") : null);
}

const COLUMNS = [
  { key: "judging_set", label: "Judged on", text: true }, { key: "dimension", label: "By", text: true }, { key: "group", label: "Group", text: true },
  { key: "steps", label: "Steps", write: number }, { key: "units", label: "Units", write: (units) => (units ? number(units) : "-") },
  { key: "serving", label: "Error before", write: share }, { key: "candidate", label: "Error", write: share },
  { key: "low", label: "Difference", write: (low, { high, assumed }) => `${signed(low)} to ${signed(high)}${assumed ? " *" : ""}` },
];

function signed(value) {
  return `${value < 0 ? "−" : "+"}${share(Math.abs(value))}`;
}
