// A question as a command line. The key itself never stands in it.

import { h, say } from "../dom.js";
import { keyInUse } from "./key.js";

/** Write a question, or several, as calls of curl. */
export function curl(asked) {
  return [asked].flat().map(call).join("\n");
}

function call({ method, url, body }) {
  const lines = [`curl -s '${quoted(url)}'`];
  if (method !== "GET" && method !== "POST") lines[0] += ` -X ${method}`;
  if (keyInUse()) lines.push(`-H "Authorization: Bearer $PERFMODEL_KEY"`);
  if (body !== null) {
    lines.push("-H 'Content-Type: application/json'");
    lines.push(`-d '${quoted(JSON.stringify(body))}'`);
  }
  return lines.join(" \\\n  ");
}

function quoted(text) {
  return text.replaceAll("'", `'\\''`);
}

/** Show what was asked as curl, with a button that copies it. */
export function curlBox(asked) {
  const code = h("code", {}, curl(asked));
  const button = h("button", { type: "button", class: "small", onclick: () => copy(code, button) }, "Copy");
  return h("div", {}, h("pre", { tabindex: "0", "aria-label": "Request as curl" }, code), button);
}

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    // Browsers keep the clipboard from pages that came over plain HTTP from another host.
    getSelection().selectAllChildren(code);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  say("Copied the request.");
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}
