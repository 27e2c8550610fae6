// Decide about a version: ask for the reason, do it, or say why it was not done.

import { $, h, say, shown } from "../dom.js";
import { askForKey } from "../service/key.js";
import { ask, question } from "../service/service.js";

const FORBIDDEN = 403;
const UNPROCESSABLE = 422;

/** Ask for a reason; resolves to it, or to null where nothing shall be done. */
function confirmed({ title, about, label }) {
  const dialog = $("decision");
  $("decision-title").textContent = title;
  $("decision-about").textContent = about;
  $("decision-do").textContent = label;
  $("decision-why").value = "";
  const reason = shown(dialog, (word) => (word === "do" ? $("decision-why").value.trim() : null));
  $("decision-why").focus();
  return reason;
}

/**
 * Make a decision `{path, force, title, about, label}`.
 *
 * `refuse(message, repair)` is told why the service did not do it; `insist` does by force what can be forced.
 * Resolves to what it answered, or null.
 */
export async function decideAbout(decision, refuse, insist) {
  refuse(null);
  const why = await confirmed(decision);
  if (why === null) return null;
  const query = new URLSearchParams();
  if (why) query.set("why", why);
  if (decision.force) query.set("force", "true");
  try {
    const answer = await ask(question("POST", `${decision.path}${query.size ? `?${query}` : ""}`));
    say(`${decision.title}: done.`);
    return answer;
  } catch (problem) {
    const other = h("button", { type: "button", onclick: () => askForKey() }, "Use another key");
    const forced = h("button", { type: "button", onclick: insist }, `${decision.label} all the same`);
    const repairs = { [FORBIDDEN]: other, [UNPROCESSABLE]: decision.force === false ? forced : null };
    refuse(`${decision.title}: ${problem.message}`, repairs[problem.status] ?? null);
    return null;
  }
}
