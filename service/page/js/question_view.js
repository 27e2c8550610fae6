// What is asked, and the panels that answer it.

import { $ } from "./dom.js";
import { fill, offer, read, replaceAccelerator, setUp } from "./asking/form.js";
import { accuracyPanels } from "./panels/accuracy.js";
import { answerPanel } from "./panels/answer.js";
import { comparePanel } from "./panels/compare.js";
import { curvePanel } from "./panels/curve.js";
import { explainPanels } from "./panels/explain.js";
import { readPlacement } from "./asking/placement.js";
import { clearProblems, showProblem } from "./asking/problems.js";
import { ask, Problem, question } from "./service/service.js";
import { FieldError, fromAddress, jobOf, toAddress } from "./asking/state.js";

const SETTLED_MS = 300;
const PATIENCE_MS = 1500;

const form = $("question");
const answer = answerPanel($("answer"));
const curve = curvePanel(adjust);
const compare = comparePanel(adjust);
const explain = explainPanels();
const accuracy = accuracyPanels();
const view = { state: fromAddress(location.search), running: null, timer: 0 };

const [roofline, operators, factors, nearest] = explain.elements;
$("panels").append(compare.element, curve.element, roofline, operators, factors, nearest, ...accuracy.elements);

/** Ask all that the form says. */
async function predict({ focus = false, remember = true } = {}) {
  clearTimeout(view.timer);
  view.running?.abort();
  view.running = new AbortController();
  const { signal } = view.running;
  view.state = read(form, view.state);
  if (remember && toAddress(view.state) !== (location.search || location.pathname)) history.pushState(null, "", toAddress(view.state));
  clearProblems(form);
  const label = sentence(view.state);
  answer.wait(label);
  const patience = setTimeout(() => answer.patience(`${label}: reading the model for the first time takes some seconds.`), PATIENCE_MS);
  try {
    const job = jobOf(view.state);
    const request = question("POST", "v1/predict", { job, placement: view.state.on });
    const estimate = await ask(request, { signal });
    answer.show(estimate, label, request);
    $("panels").classList.remove("unanswered");
    document.title = `${label} – perfmodel`;
    if (focus) $("answer").focus({ preventScroll: false });
    await elaborate(job, signal);
  } catch (error) {
    if (error.name !== "AbortError") refuse(error, focus);
  } finally {
    clearTimeout(patience);
  }
}

/** Fill the panels that need an answerable question. */
async function elaborate(job, signal) {
  const parts = readPlacement(view.state.on);
  await Promise.all([
    compare.ask(job, parts, view.state, signal),
    curve.ask(job, parts, view.state, signal),
    explain.ask(job, view.state.on, signal),
  ]);
}

function refuse(error, focus) {
  if (!(error instanceof Problem || error instanceof FieldError)) throw error;
  const problem = error instanceof FieldError ? { errors: [{ pointer: error.pointer, detail: error.message }] } : error;
  const field = showProblem(form, problem, repair);
  answer.clear(field ? "The question cannot be answered as it is; see the marked field." : "There is no answer.");
  for (const panel of [compare, curve, explain]) panel.clear();
  $("panels").classList.add("unanswered");
  if (focus && field) (field.matches("input, select") ? field : field.querySelector("input")).focus();
}

/** Take the name that was meant. */
function repair(field, name) {
  if (field.id === "accelerator" || field.id === "on") replaceAccelerator(name);
  else field.value = name;
  field.focus();
  predict();
}

/** Change what single pictures show, and keep it in the address. */
function adjust(fields) {
  Object.assign(view.state, fields);
  history.replaceState(null, "", toAddress(view.state));
  let job;
  try {
    job = jobOf(view.state);
  } catch {
    return;
  }
  const parts = readPlacement(view.state.on);
  if ("versus" in fields) compare.ask(job, parts, view.state, view.running?.signal);
  else curve.ask(job, parts, view.state, view.running?.signal);
}

function sentence({ model, mode, batch, precision, on }) {
  const name = model.trim().startsWith("{") ? "a transformers config" : model.trim();
  return `${name}, ${mode}, batch ${batch}, ${precision}, on ${on}`;
}

/** Offer the names that the service knows. */
async function introduce() {
  const { accelerators } = await ask(question("GET", "v1/accelerators"));
  offer("accelerators", accelerators.map(({ name }) => name));
}

setUp(form);
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
  view.state = fromAddress(location.search);
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
