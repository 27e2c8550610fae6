// The API key: kept for this tab only, entered where the service asks for one.

import { $, shown } from "../dom.js";

const PLACE = "perfmodel-key";
let asking = null;

/** Return the key that is shown to the service, or null. */
export function keyInUse() {
  return sessionStorage.getItem(PLACE);
}

/** Open the dialog; resolves to true where a key was entered. Many askers share one dialog. */
export function askForKey(problem = null) {
  asking ??= open(problem).finally(() => { asking = null; });
  return asking;
}

function open(problem) {
  const dialog = $("key-dialog");
  $("key-why").textContent = problem?.detail ?? "Needed where the service asks for one.";
  $("key").value = "";
  $("key-forget").hidden = keyInUse() === null;
  const entered = shown(dialog, keep);
  $("key").focus();
  return entered;
}

function keep(chosen) {
  const typed = $("key").value.trim();
  $("key").value = "";
  if (chosen === "forget") sessionStorage.removeItem(PLACE);
  if (chosen === "use" && typed) sessionStorage.setItem(PLACE, typed);
  showState();
  return chosen === "use" && typed !== "";
}

/** Say on the button whether there is a key. */
export function showState() {
  $("key-button").textContent = keyInUse() ? "API key ✓" : "API key";
}
