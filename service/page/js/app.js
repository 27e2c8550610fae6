// The page: one view of it, its key, and which model serves.

import { $ } from "./dom.js";
import { askForKey, showState } from "./service/key.js";
import { ask, question } from "./service/service.js";

const models = new URLSearchParams(location.search).get("view") === "models";

/** Say which model serves. */
async function introduce() {
  try {
    const { serving, problems } = await ask(question("GET", "v1/models"));
    $("serving").textContent = problems.length ? `Model ${serving}. Degraded: ${problems.join(" ")}` : `Model ${serving}`;
  } catch (error) {
    $("serving").textContent = error.message;
  }
  $("serving").title = $("serving").textContent;
}

/** Load the view that the address names; the other one is not. */
async function load() {
  if (!models) return (await import("./question_view.js")).showQuestions;
  return (await import("./models/models_view.js")).showModels;
}

$(models ? "versions" : "asking").hidden = false;
document.querySelector(".skip").hidden = models;
// The fragment of the address is the question.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("answer").focus();
});
$(models ? "to-models" : "to-questions").setAttribute("aria-current", "page");
showState();
const show = await load();

function start() {
  introduce();
  show();
}

$("key-button").addEventListener("click", async () => {
  if (await askForKey()) start();
});
start();
