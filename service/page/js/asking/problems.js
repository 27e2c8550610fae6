// Show what is wrong next to the field that it is about.

import { $, h } from "../dom.js";

/** Take all errors off a form. */
export function clearProblems(form) {
  for (const error of form.querySelectorAll(".error")) error.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
  $("form-error").hidden = true;
}

/**
 * Show a problem; `repair(field, name)` is called with the name that was meant instead.
 *
 * Returns the first field that is wrong, or null where the problem is about none of them.
 */
export function showProblem(form, problem, repair) {
  const items = problem.errors?.length ? problem.errors : [{ pointer: "", detail: problem.message }];
  const fields = items.map((item) => {
    const field = fieldOf(form, item);
    if (field) mark(field, item, problem, repair);
    else banner(item.detail);
    return field;
  });
  return fields.find(Boolean) ?? null;
}

function banner(text) {
  $("form-error").textContent = $("form-error").hidden ? text : `${$("form-error").textContent} ${text}`;
  $("form-error").hidden = false;
}

/** Return the field whose pointer begins the one that is wrong; a longer beginning is nearer. */
function fieldOf(form, { pointer, detail }) {
  if (detail.startsWith("Unknown accelerator ") && !$("accelerator").disabled) return $("accelerator");
  let best = null;
  let longest = 0;
  for (const field of form.querySelectorAll("[data-pointer]")) {
    for (const start of field.dataset.pointer.split(" ")) {
      const leads = pointer === start || pointer.startsWith(`${start}/`);
      if (leads && start.length > longest) [best, longest] = [field, start.length];
    }
  }
  return best;
}

function mark(field, item, problem, repair) {
  const id = `${field.id || field.getAttribute("aria-labelledby")}-error`;
  // The names are those that the first of its mistakes may mean.
  const close = item.detail === problem.detail ? problem.did_you_mean ?? [] : [];
  const meant = close.map((name, i) => [
    i ? ", " : " Did you mean ", h("button", { type: "button", onclick: () => repair(field, name) }, name)]);
  // The names are buttons; they need not stand there twice.
  const detail = meant.length ? item.detail.replace(/ Did you mean [^?]*\?/, "") : item.detail;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", id);
  const holder = field.closest(".field");
  const details = holder.closest("details");
  if (details) details.open = true;
  holder.querySelector(".error")?.remove();
  holder.append(h("p", { class: "error", id, role: "alert" }, detail, meant, meant.length ? "?" : null));
}
