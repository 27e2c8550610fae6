// What is asked, and the panels that answer it.

import { $, h } from "./dom.js";
import { fill, offer, read, replaceAccelerator, setUp } from "./asking/form.js";
import { accuracyPanels } from "./panels/accuracy.js";
import { answerPanel } from "./panels/answer.js";
import { comparePanel } from "./panels/compare.js";
import { costsOfAnswer } from "./panels/costs.js";
import { curvePanel } from "./panels/curve.js";
import { explainPanels } from "./panels/explain.js";
import { clearProblems, showProblem } from "./asking/problems.js";
import { setUpPicker } from "./asking/picker.js";
import { readPlacements } from "./asking/read_placements.js";
import { ask, Problem, question } from "./service/service.js";
import { fromAddress, jobOf, toAddress } from "./asking/state.js";

const SETTLED_MS = 300;
const PATIENCE_MS = 1500;

const form = $("question");
const costs = costsOfAnswer();
const answer = answerPanel($("answer"), costs.element);
const curve = curvePanel((change) => adjust(curve, change));
const compare = comparePanel((change) => adjust(compare, change));
const explain = explainPanels();
const accuracy = accuracyPanels();
const view = { state: fromAddress(location), running: null, timer: 0, answered: null, patience: 0 };

const [roofline, operators, factors, nearest] = explain.elements;
$("panels").append(compare.element, curve.element, roofline, operators, factors, nearest, ...accuracy.elements);

/** Ask all that the form says. */
async function predict({ focus = false, remember = true } = {}) {
  clearTimeout(view.timer);
  view.running?.abort();
  view.running = new AbortController();
  const { signal } = view.running;
  view.state = read(form, view.state);
  if (remember && toAddress(view.state) !== toAddress(fromAddress(location))) history.pushState(null, "", toAddress(view.state));
  clearProblems(form);
  wait();
  try {
    const [facts] = await readPlacements([view.state.on], signal);
    const usual = facts?.usual_precision ?? "fp32";
    $("precision-usual").textContent = `${usual}, usual`;
    const label = sentence(view.state, usual);
    const { job, mistakes } = jobOf(view.state, usual);
    const request = question("POST", "v1/predict", { job, placement: view.state.on });
    const estimate = mistakes.length ? await refused(request, mistakes, signal) : await ask(request, { signal });
    waited();
    answer.show(estimate, label, request);
    view.answered = { job, facts, estimate, stated: view.state.precision !== "" };
    $("panels").classList.remove("unanswered");
    document.title = `${label} – perfmodel`;
    if (focus) $("answer").focus({ preventScroll: false });
    await elaborate(signal);
  } catch (error) {
    if (error.name !== "AbortError") refuse(error, focus);
  }
}

/** Show that what stands there is of another question, and after a while why. */
function wait() {
  waited();
  $("panels").classList.add("waiting");
  view.patience = setTimeout(() => {
    const button = h("button", { type: "button", class: "plain", onclick: giveUp }, "Give up");
    $("patience").replaceChildren("No answer yet. Reading a model for the first time takes some seconds. ", button);
    $("patience").hidden = false;
  }, PATIENCE_MS);
}

function waited() {
  clearTimeout(view.patience);
  $("patience").hidden = true;
  $("panels").classList.remove("waiting");
}

/** Say what cannot be sent, and what the service says is wrong with the rest. */
async function refused(request, mistakes, signal) {
  const known = new Set(mistakes.map(({ pointer }) => pointer));
  try {
    await ask(request, { signal });
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    mistakes.push(...problem.errors.filter(({ pointer }) => !known.has(pointer)));
  }
  throw new Problem({ detail: mistakes[0].detail, errors: mistakes });
}

function giveUp() {
  view.running?.abort();
  waited();
  unanswered("It was given up.", true);
}

function unanswered(message, again) {
  view.answered = null;
  document.title = "perfmodel";
  answer.clear(message, again ? () => predict({ remember: false }) : null);
  for (const panel of [compare, curve, explain]) panel.clear();
  $("panels").classList.add("unanswered");
}

/** Fill the panels that need an answerable question. */
async function elaborate(signal) {
  const { answered, state } = view;
  const explained = explain.ask(answered.job, state.on, signal);
  await Promise.all([
    compare.ask(answered, state, signal),
    curve.ask(answered, state, signal),
    costs.ask(answered, explained, signal),
  ]);
}

function refuse(error, focus) {
  waited();
  if (!(error instanceof Problem)) throw error;
  const field = showProblem(form, error, repair);
  unanswered(field ? "The question cannot be answered as it is; see what is marked." : "There is no answer.", !field);
  if (focus && field) (field.matches("input, select") ? field : field.querySelector("input")).focus();
}

/** Take the name that was meant. */
function repair(field, name) {
  if (field.id === "accelerator" || field.id === "on") replaceAccelerator(name);
  else field.value = name;
  field.focus();
  predict();
}

/** Change what a single picture shows, and keep it in the address. */
function adjust(panel, change) {
  Object.assign(view.state, change(view.state));
  history.replaceState(null, "", toAddress(view.state));
  if (view.answered) panel.ask(view.answered, view.state, view.running.signal);
}

function sentence({ model, mode, batch, precision, on }, usually) {
  const name = model.trim().startsWith("{") ? "a transformers config" : model.trim();
  return `${name}, ${mode}, batch ${batch}, ${precision || usually}, on ${on}`;
}

/** Offer the names that the service knows. */
async function introduce() {
  const { accelerators } = await ask(question("GET", "v1/accelerators"));
  offer("accelerators", accelerators.map(({ name }) => name));
}

setUp(form);
setUpPicker((fields) => {
  view.state = { ...read(form, view.state), ...fields };
  fill(form, view.state);
  predict();
});
fill(form, view.state);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  predict({ focus: true });
});
form.addEventListener("change", () => {
  clearTimeout(view.timer);
  view.timer = setTimeout(predict, SETTLED_MS);
});
addEventListener("popstate", () => {
  view.state = fromAddress(location);
  fill(form, view.state);
  predict({ remember: false });
});

/** Ask what the form says, and all that the page shows beside it. */
export function showQuestions() {
  // What is wrong is said where the question is answered.
  introduce().catch(() => {});
  predict({ remember: false });
  accuracy.load();
}
