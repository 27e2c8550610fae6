// What was decided about versions: by whom, when and why.

import { h, redraw } from "../dom.js";
import { tableOf } from "../drawing/figure.js";
import { moment } from "../drawing/numbers.js";
import { shortName } from "./facts.js";

/** Make the panel. */
export function decisionsPanel() {
  const body = h("div");
  const element = h("section", { class: "card whole", id: "decisions", "aria-labelledby": "decisions-title" },
    h("header", {}, h("h2", { id: "decisions-title" }, "Decisions")),
    h("p", { class: "about" }, "Each change of state, the newest first."), body);

  return {
    element,
    wait: () => body.classList.add("waiting"),
    fail(problem) {
      body.classList.remove("waiting");
      body.replaceChildren(h("p", { class: "error" }, problem.message));
    },
    /** Show the changes of versions, as `GET /v1/models/{name}/{version}` tells them. */
    show(versions) {
      body.classList.remove("waiting");
      const changes = versions.flatMap(({ model, changes: own }) => own.map((one) => ({ ...one, model })));
      changes.sort((one, other) => other.sequence - one.sequence || (other.change_id > one.change_id ? 1 : -1));
      redraw(body, changes.length ? tableOf({ columns: COLUMNS, rows: changes }, "Decisions") : h("p", { class: "note" }, "Nothing was decided yet: the newest version serves."));
    },
  };
}

const COLUMNS = [
  { key: "at", label: "When", write: moment, text: true }, { key: "model", label: "Version", write: shortName, text: true },
  { key: "action", label: "What", text: true }, { key: "state", label: "State then", text: true },
  { key: "by", label: "Who", text: true }, { key: "why", label: "Why", write: (why) => why || "–", text: true },
];
