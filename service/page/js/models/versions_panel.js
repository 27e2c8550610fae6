// The versions that there are, with their states, and what can be decided about one.

import { h, redraw } from "../dom.js";
import { moment, number, share } from "../drawing/numbers.js";
import { headError, samplesOf, shortName } from "./facts.js";

const CHIPS = { serving: "", shadow: "warn", refused: "bad" };

/** What each decision is called, which states it is offered in, and what it says before it is made. */
const DECISIONS = [
  { verb: "promote", label: "Promote", of: ["candidate", "shadow", "retired", "refused"], about: "It answers on every worker and host within seconds. Pinned versions go on answering." },
  { verb: "shadow", label: "Let it shadow", of: ["candidate", "retired", "refused"], about: "It answers what was asked last, and what is asked from now on, beside the version that serves. Nobody is told its answers." },
  { verb: "refuse", label: "Refuse", of: ["candidate", "shadow", "retired"], about: "It shall not serve; to promote it all the same has to be forced from then on." },
];

/** Make the panel; `chosen(model)` is called with a version, `decide(decision)` with what to do. */
export function versionsPanel(chosen, decide) {
  const body = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Versions" });
  const actions = h("div", { class: "row actions" });
  const refusal = h("p", { class: "banner", role: "alert", hidden: true });
  const problems = h("div");
  const element = h("section", { class: "card whole", id: "model-versions", "aria-labelledby": "model-versions-title" },
    h("header", {}, h("h2", { id: "model-versions-title" }, "Versions")),
    h("p", { class: "about" }, "One version of a model answers. Whatever is trained waits until it is promoted; the error is that on families of models that the version had not seen."),
    body, refusal, actions, problems);

  function offers(listed, model) {
    const { state } = listed.find((one) => one.model === model) ?? {};
    const serving = listed.find((one) => one.serving);
    const offered = DECISIONS.filter(({ of, verb }) => of.includes(state) && !(verb === "shadow" && !serving));
    const buttons = offered.map(({ verb, label, about }) => h("button", {
      type: "button", class: "small", "data-verb": verb,
      onclick: () => decide({ path: `v1/models/${model}/${verb}`, force: verb === "promote" ? state === "refused" : undefined, title: `${label}: ${shortName(model)}`, label, about }),
    }, label));
    const name = (serving ?? listed[0])?.model.split("/")[0] ?? "default";
    const back = h("button", {
      type: "button", class: "small", "data-verb": "rollback",
      onclick: () => decide({ path: `v1/models/${name}/rollback`, title: "Roll back", label: "Roll back", about: "The version serves that did before this one." }),
    }, "Roll back");
    return [h("span", { class: "beside" }, h("b", {}, shortName(model)), ` ${state ?? ""}`), buttons, listed.length > 1 && serving ? back : null];
  }

  return {
    element,
    wait: () => body.classList.add("waiting"),
    fail(problem) {
      body.classList.remove("waiting");
      body.replaceChildren(h("p", { class: "error" }, problem.message));
      for (const part of [actions, problems]) part.replaceChildren();
    },
    /** Say why something was not done; null takes that away. */
    refuse(message, repair = null) {
      refusal.hidden = message === null;
      refusal.replaceChildren(message ?? "", ...(repair ? [" ", repair] : []));
    },
    show({ models, problems: wrong }, model) {
      body.classList.remove("waiting");
      redraw(body, models.length ? table(models, model, chosen) : h("p", { class: "note" }, "There is no trained model; the analytical one answers. `perfmodel train` makes one."));
      redraw(actions, model ? offers(models, model) : []);
      problems.replaceChildren(...(wrong.length ? [h("ul", { class: "warnings" }, wrong.map((text) => h("li", {}, text)))] : []));
    },
  };
}

function table(models, model, chosen) {
  const head = ["", "State", "Version", "Trained", "Steps learned", "Devices", "Held-out error"];
  return h("table", {},
    h("thead", {}, h("tr", {}, head.map((label, i) => h("th", { scope: "col", class: i < 4 ? "text" : null }, label || h("span", { class: "visually-hidden" }, "Shown"))))),
    h("tbody", {}, models.map((one) => row(one, one.model === model, chosen))));
}

function row(one, is, chosen) {
  const pick = h("input", { type: "radio", name: "version", value: one.model, checked: is, "aria-label": `Show ${one.model}`, onchange: () => chosen(one.model) });
  const damaged = Object.keys(one.damaged ?? {}).length > 0;
  return h("tr", {},
    h("td", { class: "text" }, pick),
    h("td", { class: "text" }, h("span", { class: `chip ${CHIPS[one.state] ?? "quiet"}` }, one.state), damaged ? [" ", h("span", { class: "chip bad" }, "damaged")] : null),
    h("td", { class: "text" }, shortName(one.model)),
    h("td", { class: "text" }, one.created_at ? moment(one.created_at) : "–"),
    h("td", {}, number(samplesOf(one))),
    h("td", {}, number(Object.keys(one.joint?.devices ?? one.devices ?? {}).length)),
    h("td", {}, share(headError(one))));
}
