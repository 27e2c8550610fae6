// Save a picture as SVG, and its numbers as CSV.

import { s } from "../dom.js";

const KEPT = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity",
  "font-size", "font-weight", "font-family",
];

/** Write a table (RFC 4180): one line of names, numbers with all their digits. */
export function csv({ columns, rows }) {
  const lines = [columns.map(({ key }) => key), ...rows.map((row) => columns.map(({ key }) => row[key]))];
  return lines.map((line) => line.map(cell).join(",") + "\r\n").join("");
}

function cell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Write a picture that needs no style sheet: light, on white, with the request in `desc`. */
export function standalone(svg, { title, request }) {
  const copy = svg.cloneNode(true);
  const paper = document.createElement("div");
  paper.className = "paper";
  paper.append(copy);
  document.body.append(paper);
  try {
    for (const element of copy.querySelectorAll("*")) inline(element);
    const [, , width, height] = copy.getAttribute("viewBox").split(" ");
    for (const name of ["tabindex", "class", "role", "aria-label"]) copy.removeAttribute(name);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.prepend(s("title", {}, title), s("desc", {}, request), s("rect", { width, height, fill: "#ffffff" }));
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
  } finally {
    paper.remove();
  }
}

function inline(element) {
  const style = getComputedStyle(element);
  const kept = KEPT.map((name) => [name, style.getPropertyValue(name)]);
  element.removeAttribute("class");
  for (const [name, value] of kept) element.setAttribute(name, value);
}

/** Hand a file to the browser to be saved. */
export function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
