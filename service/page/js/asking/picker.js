// Pick a model without typing its name: an example, a configuration, an ONNX file.

import { $, h } from "../dom.js";
import { editConfiguration } from "./configuration.js";
import { PRESETS } from "./names.js";
import { DEFAULTS } from "./state.js";
import { ask, Problem, question } from "../service/service.js";

/** Fields of a job that an example leaves as they usually are. */
const OF_A_JOB = ["model", "mode", "batch", "precision", "optimizer", "sequence", "compiler", "format", "accumulation", "checkpointing", "kwargs"];

/** Set up what picks a model; `picked(fields)` is called with the fields that it sets. */
export function setUpPicker(picked) {
  const form = $("question");
  $("preset").append(...PRESETS.map(([label], i) => h("option", { value: i }, label)));
  $("preset").addEventListener("change", (event) => {
    // The form asks by itself after a change of a field; this is none.
    event.stopPropagation();
    const chosen = PRESETS[$("preset").value];
    $("preset").value = "";
    tell("");
    if (chosen) picked({ ...Object.fromEntries(OF_A_JOB.map((name) => [name, DEFAULTS[name]])), ...chosen[1] });
  });
  $("config-open").addEventListener("click", async () => {
    const text = await editConfiguration($("model").value);
    tell("");
    if (text !== null) picked({ model: text });
  });
  $("onnx-open").addEventListener("click", () => $("onnx").click());
  $("onnx").addEventListener("change", (event) => {
    event.stopPropagation();
    if ($("onnx").files.length) upload($("onnx").files[0], form, picked);
  });
  for (const kind of ["dragover", "drop"]) form.addEventListener(kind, (event) => event.preventDefault());
  form.addEventListener("dragover", () => form.classList.add("over"));
  for (const kind of ["dragleave", "drop"]) form.addEventListener(kind, () => form.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    const [file] = event.dataTransfer.files;
    if (file) upload(file, form, picked);
  });
}

/** Send an ONNX file, of which the service keeps the graph; then the job is that graph. */
async function upload(file, form, picked) {
  const { mode, batch } = Object.fromEntries(new FormData(form));
  tell(`Reading ${file.name}…`);
  const query = new URLSearchParams({ mode, batch_size: batch.trim() });
  try {
    const { graph } = await ask(question("POST", `v1/graphs?${query}`, file));
    tell(`${file.name}, at batch ${batch.trim()}.`);
    picked({ model: graph });
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    tell(`${file.name}: ${problem.message}`, true);
  } finally {
    $("onnx").value = "";
  }
}

function tell(text, wrong = false) {
  $("picked").textContent = text;
  $("picked").hidden = text === "";
  $("picked").className = wrong ? "error" : "hint";
}
