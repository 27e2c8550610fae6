// Edit a configuration as JSON: numbered lines, and what is wrong with it at its line.

import { $, shown } from "../dom.js";

const INDENT = 2;

/** Open the editor; resolves to the configuration in one line, or to null where none shall be used. */
export function editConfiguration(before) {
  const [dialog, text] = [$("config-dialog"), $("config-text")];
  text.value = pretty(before.trim().startsWith("{") ? before : "") ?? before;
  const configuration = shown(dialog, (word) => (word === "use" ? JSON.stringify(JSON.parse(text.value)) : null));
  look();
  text.focus();
  return configuration;
}

function pretty(text) {
  try {
    return text.trim() === "" ? "" : JSON.stringify(JSON.parse(text), null, INDENT);
  } catch {
    return null;
  }
}

/** Number the lines, and say whether it can be used. */
function look() {
  const text = $("config-text").value;
  const found = wrongWith(text);
  const lines = text.split("\n");
  $("config-lines").replaceChildren(...lines.flatMap((_, i) => [mark(i + 1, found?.line === i + 1), "\n"]));
  $("config-lines").scrollTop = $("config-text").scrollTop;
  $("config-state").textContent = found?.words ?? `${lines.length} lines.`;
  $("config-state").className = found && text.trim() ? "error" : "hint";
  $("config-text").setAttribute("aria-invalid", String(Boolean(found && text.trim())));
  $("config-use").disabled = found !== null;
}

function mark(number, wrong) {
  if (!wrong) return String(number);
  const element = document.createElement("b");
  element.textContent = number;
  return element;
}

/** Return what is wrong with a text and the line of it, or null. */
function wrongWith(text) {
  if (text.trim() === "") return { words: "Paste the config.json of a model.", line: null };
  try {
    const found = JSON.parse(text);
    const wrong = found === null || Array.isArray(found) || typeof found !== "object";
    return wrong ? { words: "A configuration is an object: { … }.", line: 1 } : null;
  } catch (error) {
    const line = lineOf(error.message, text);
    return { words: `Line ${line}: this is not JSON. ${error.message}.`, line };
  }
}

/** Browsers say where JSON ends to be JSON by line, by position, or not at all: then at its end. */
function lineOf(message, text) {
  const line = /line (\d+)/.exec(message);
  if (line) return Number(line[1]);
  const position = /position (\d+)/.exec(message);
  return text.slice(0, position ? Number(position[1]) : text.trimEnd().length).split("\n").length;
}

$("config-text").addEventListener("input", look);
$("config-text").addEventListener("scroll", () => { $("config-lines").scrollTop = $("config-text").scrollTop; });
$("config-format").addEventListener("click", () => {
  $("config-text").value = pretty($("config-text").value) ?? $("config-text").value;
  look();
});
