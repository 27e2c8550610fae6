// What is asked, and the panels that answer it.

import { $ } from "./dom.js";
import { fill, offer, read, replaceAccelerator, setUp } from "./asking/form.js";
import { accuracyPanels } from "./panels/accuracy.js";
import { answerPanel } from "./panels/answer.js";
import { comparePanel } from "./panels/compare.js";
import { costsOfAnswer } from "./panels/costs.js";
import { curvePanel } from "./panels/curve.js";
import { explainPanels } from "./panels/explain.js";
import { readPlacement } from "./asking/placement.js";
import { clearProblems, showProblem } from "./asking/problems.js";
import { setUpPicker } from "./asking/picker.js";
import { ask, Problem, question } from "./service/service.js";
import { fromAddress, jobOf, toAddress } from "./asking/state.js";
import { usualPrecision } from "./asking/usual_precision.js";

const SETTLED_MS = 300;
const PATIENCE_MS = 1500;

const form = $("question");
const costs = costsOfAnswer();
const answer = answerPanel($("answer"), costs.element);
const curve = curvePanel(adjust);
const compare = comparePanel(adjust);
const explain = explainPanels();
const accuracy = accuracyPanels();
const view = { state: fromAddress(location.search), running: null, timer: 0, catalogue: new Map(), known: null };

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
  const patience = setTimeout(() => answer.patience(`${sentence(view.state, usual())}: reading a model for the first time takes some seconds.`, giveUp), PATIENCE_MS);
  try {
    answer.wait(sentence(view.state, usual()));
    // What is usual on an accelerator is known once the catalogue is.
    await view.known;
    signal.throwIfAborted();
    const label = sentence(view.state, usual());
    const { job, mistakes } = jobOf(view.state, usual());
    const request = question("POST", "v1/predict", { job, placement: view.state.on });
    const estimate = mistakes.length ? await refused(request, mistakes, signal) : await ask(request, { signal });
    clearTimeout(patience);
    answer.show(estimate, label, request);
    $("panels").classList.remove("unanswered");
    document.title = `${label} – perfmodel`;
    if (focus) $("answer").focus({ preventScroll: false });
    await elaborate(job, estimate, signal);
  } catch (error) {
    if (error.name !== "AbortError") refuse(error, focus);
  } finally {
    clearTimeout(patience);
  }
}

/** Return the precision that is usual on an accelerator, as a job states it: fp32 is not stated. */
function precisionOn(name) {
  // A slice computes as its card does.
  const precision = usualPrecision(view.catalogue.get(folded(name?.split("/")[0])));
  return precision === "fp32" ? undefined : precision;
}

/** Return the precision that is usual on what is asked about. */
function usual() {
  const precision = precisionOn(readPlacement(view.state.on)?.accelerator) ?? "fp32";
  $("precision-usual").textContent = `${precision}, usual`;
  return precision;
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
  unanswered("It was given up.", true);
}

function unanswered(message, again) {
  answer.clear(message, again ? () => predict({ remember: false }) : null);
  for (const panel of [compare, curve, explain]) panel.clear();
  $("panels").classList.add("unanswered");
}

/** Fill the panels that need an answerable question. */
async function elaborate(job, estimate, signal) {
  const parts = readPlacement(view.state.on);
  const card = view.catalogue.get(folded(parts?.accelerator));
  const explained = explain.ask(job, view.state.on, signal);
  await Promise.all([
    compare.ask(job, comparable(parts), view.state, precisionOn, signal),
    curve.ask(job, comparable(parts), view.state, signal),
    costs.ask({ estimate, explained, parts, card }, signal),
  ]);
}

function refuse(error, focus) {
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

/** Change what single pictures show, and keep it in the address. */
function adjust(fields) {
  Object.assign(view.state, fields);
  history.replaceState(null, "", toAddress(view.state));
  const { job, mistakes } = jobOf(view.state, usual());
  if (mistakes.length) return;
  const parts = readPlacement(view.state.on);
  if ("versus" in fields) compare.ask(job, comparable(parts), view.state, precisionOn, view.running?.signal);
  else curve.ask(job, comparable(parts), view.state, view.running?.signal);
}

/** Return the parts of a placement whose accelerator is one: a host that has a name holds several. */
function comparable(parts) {
  const known = !view.catalogue.size || view.catalogue.has(folded(parts?.accelerator)) || !/xlarge|metal|gpu|standard|^nd|[dh]gx|nvl|^v\d/i.test(parts?.accelerator);
  return known ? parts : null;
}

function sentence({ model, mode, batch, precision, on }, usually) {
  const name = model.trim().startsWith("{") ? "a transformers config" : model.trim();
  return `${name}, ${mode}, batch ${batch}, ${precision || usually}, on ${on}`;
}

/** Offer the names that the service knows. */
async function introduce() {
  const { accelerators } = await ask(question("GET", "v1/accelerators"));
  offer("accelerators", accelerators.map(({ name }) => name));
  view.catalogue = new Map(accelerators.flatMap((one) => [one.name, ...one.aliases].map((name) => [folded(name), one])));
}

/** Return a name without case and separators, as the service compares names. */
function folded(name = "") {
  return name.toLowerCase().replace(/[^0-9a-z+]/g, "");
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
  view.state = fromAddress(location.search);
  fill(form, view.state);
  predict({ remember: false });
});

/** Ask what the form says, and all that the page shows beside it. */
export function showQuestions() {
  // What is wrong is said where the question is answered.
  view.known = introduce().catch(() => {});
  predict({ remember: false });
  accuracy.load();
}
