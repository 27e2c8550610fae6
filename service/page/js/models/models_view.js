// The versions of the model: how good each is, what was decided about it and what is going on.

import { $ } from "../dom.js";
import { ask, question } from "../service/service.js";
import { decideAbout } from "./deciding.js";
import { decisionsPanel } from "./decisions_panel.js";
import { driftPanel } from "./drift_panel.js";
import { retrainingsPanel } from "./retrainings_panel.js";
import { scorePanels } from "./scores_panel.js";
import { shadowPanel } from "./shadow_panel.js";
import { versionsPanel } from "./versions_panel.js";

const AGAIN_MS = 3000;
/** Versions whose decisions are asked for, each by a request of its own. */
const MOST_VERSIONS = 30;

const versions = versionsPanel(choose, decide);
const scores = scorePanels();
const shadow = shadowPanel();
const decisions = decisionsPanel();
const drift = driftPanel();
const retrainings = retrainingsPanel();
const view = { listed: null, request: null, chosen: null, timer: 0 };

$("models-panels").append(versions.element, retrainings.element, ...scores.elements, shadow.element, drift.element, decisions.element);

/** Ask for everything that this view shows. */
export async function showModels() {
  document.title = "Models – perfmodel";
  versions.wait();
  decisions.wait();
  drift.load();
  watch();
  await refresh();
}

/** Ask for the versions again, and show the one that is chosen. */
async function refresh() {
  view.request = question("GET", "v1/models");
  try {
    view.listed = await ask(view.request);
  } catch (problem) {
    versions.fail(problem);
    decisions.fail(problem);
    scores.clear();
    shadow.clear();
    return;
  }
  const { models } = view.listed;
  const stated = view.chosen ?? new URLSearchParams(location.search).get("version");
  view.chosen = (models.find(({ model }) => model === stated) ?? models.find(({ state }) => state === "shadow") ?? models.find(({ state }) => state === "candidate") ?? models.find(({ serving }) => serving) ?? models[0])?.model ?? null;
  present();
  await Promise.all([showShadow(), showDecisions()]);
}

function present() {
  const { models } = view.listed;
  versions.show(view.listed, view.chosen);
  scores.show(models.find(({ serving }) => serving), models.find(({ model }) => model === view.chosen), view.request);
}

async function showShadow() {
  const { chosen, listed } = view;
  if (!chosen) return shadow.note("There is no trained model.");
  if (listed.models.find(({ model }) => model === chosen).serving) return shadow.note("This version serves. Choose another one to see how it differs.");
  const request = question("GET", `v1/models/${chosen}/shadow`);
  shadow.wait();
  try {
    const report = await ask(request);
    if (chosen !== view.chosen) return undefined;
    shadow.show(report, request);
    if (["waiting", "running"].includes(report.stage)) watch();
  } catch (problem) {
    if (chosen === view.chosen) shadow.fail(problem);
  }
  return undefined;
}

async function showDecisions() {
  const names = view.listed.models.slice(0, MOST_VERSIONS).map(({ model }) => model);
  try {
    decisions.show(await Promise.all(names.map((name) => ask(question("GET", `v1/models/${name}`)))));
  } catch (problem) {
    decisions.fail(problem);
  }
}

/** Look again as long as something is under way and somebody looks. */
function watch() {
  clearTimeout(view.timer);
  view.timer = setTimeout(async () => {
    if (document.hidden) return;
    const learning = await retrainings.load();
    if (view.listed) await showShadow();
    if (learning) watch();
  }, view.listed ? AGAIN_MS : 0);
}

function choose(model) {
  view.chosen = model;
  const address = new URL(location);
  address.searchParams.set("version", model);
  history.replaceState(null, "", address);
  present();
  showShadow();
}

async function decide(decision) {
  const done = await decideAbout(decision, versions.refuse, () => decide({ ...decision, force: true }));
  if (done) {
    await refresh();
    watch();
  }
}

addEventListener("visibilitychange", () => {
  if (!document.hidden) watch();
});
