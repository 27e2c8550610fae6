// The form: its fields, and the four that build a placement.

import { $, h } from "../dom.js";
import { HUB_MODELS, MODELS, NETWORKS } from "./names.js";
import { readPlacement, writePlacement } from "./placement.js";

const BUILDERS = ["accelerator", "count", "hosts", "network"];

/** Offer names while one types. */
export function offer(id, names) {
  $(id).replaceChildren(...names.map((name) => h("option", { value: name })));
}

/** Set up the form. */
export function setUp(form) {
  offer("models", [...MODELS, ...HUB_MODELS]);
  offer("networks", NETWORKS);
  for (const name of BUILDERS) $(name).addEventListener("input", () => build());
  $("on").addEventListener("input", () => spread());
  form.addEventListener("change", () => fitMode(form));
}

/** Fill the form. */
export function fill(form, state) {
  for (const field of form.elements) {
    if (!field.name || !(field.name in state)) continue;
    if (field.type === "radio") field.checked = field.value === state[field.name];
    else field.value = state[field.name];
  }
  const hidden = $("more").querySelectorAll("[name]");
  if ([...hidden].some((field) => state[field.name] !== usual(field))) $("more").open = true;
  fitMode(form);
  spread();
}

function usual(field) {
  if (field.tagName === "SELECT") return field.options[0].value;
  return field.name === "accumulation" ? "1" : "";
}

/** Read the form over what was asked before. */
export function read(form, state) {
  const fields = Object.fromEntries(new FormData(form));
  return { ...state, ...Object.fromEntries(Object.entries(fields).filter(([name]) => name in state)) };
}

/** Write the four fields as text. */
function build() {
  const before = readPlacement($("on").value) ?? {};
  const parts = Object.fromEntries(BUILDERS.map((name) => [name, $(name).value.trim()]));
  const link = before.accelerator === parts.accelerator ? before.link : "";
  $("on").value = writePlacement({ ...before, ...parts, link });
}

/** Spread the text over the four fields; where it says more than they can, they rest. */
function spread() {
  const parts = readPlacement($("on").value);
  for (const name of BUILDERS) {
    $(name).disabled = parts === null;
    $(name).value = parts === null ? "" : parts[name];
  }
}

/** Put another accelerator into the placement. */
export function replaceAccelerator(name) {
  $("accelerator").value = name;
  build();
}

/** Hide what means nothing in a mode. */
function fitMode(form) {
  const mode = form.elements.mode.value;
  for (const field of form.querySelectorAll("[data-only]")) field.hidden = field.dataset.only !== mode;
}
