// The frame of every picture: its title, its files, its numbers and the request that made it.

import { curl, curlBox } from "../service/curl.js";
import { h, redraw } from "../dom.js";
import { csv, save, standalone } from "./files.js";
import { readable } from "./pointing.js";

/**
 * Make a frame.
 *
 * `show` takes `draw(width)`, which returns `{svg, marks}`; `table`, `{columns: [{key, label,
 * write}], rows}`; `request`; a `caption`; and `warnings` of the answer. The picture is drawn anew
 * for another width.
 */
export function figure({ name, title, about = "", whole = false }) {
  const canvas = h("div", { class: "canvas" });
  const body = h("div", { class: "body" }, canvas);
  const caption = h("p", { class: "caption" });
  const warnings = h("div");
  const controls = h("div", { class: "controls" });
  const numbers = fold("Numbers");
  const request = fold("Request");
  const asSvg = h("button", { type: "button", class: "small", disabled: true, "aria-label": `Save ${title} as SVG` }, "↓ SVG");
  const asCsv = h("button", { type: "button", class: "small", disabled: true, "aria-label": `Save ${title} as CSV` }, "↓ CSV");
  const element = h("section", { class: `card figure${whole ? " whole" : ""}`, id: name, "aria-labelledby": `${name}-title` },
    h("header", {}, h("h2", { id: `${name}-title` }, title), h("div", { class: "tools" }, asSvg, asCsv)),
    about ? h("p", { class: "about" }, about) : null,
    controls, body, caption, warnings,
    h("div", { class: "below" }, numbers.element, request.element));
  const view = { shown: null, svg: null, width: 0 };

  function draw() {
    const width = Math.max(240, Math.round(canvas.clientWidth));
    if (!view.shown || (view.svg && width === view.width)) return;
    view.width = width;
    const { svg, marks } = view.shown.draw(width);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${title}. ${view.shown.caption ?? ""} Its numbers stand below it.`);
    view.svg = svg;
    const tip = readable(svg, canvas, marks);
    redraw(canvas, svg, tip);
  }

  function reset(message, kind) {
    Object.assign(view, { shown: null, svg: null });
    for (const button of [asSvg, asCsv]) button.disabled = true;
    for (const part of [numbers, request]) part.clear();
    caption.textContent = "";
    warnings.replaceChildren();
    canvas.replaceChildren(...(message ? [h("p", { class: kind }, message)] : []));
    canvas.classList.remove("waiting");
  }

  asSvg.addEventListener("click", () => {
    const text = standalone(view.svg, { title, request: curl(view.shown.request) });
    save(`perfmodel-${name}.svg`, text, "image/svg+xml");
  });
  asCsv.addEventListener("click", () => save(`perfmodel-${name}.csv`, csv(view.shown.table), "text/csv"));
  new ResizeObserver(() => draw()).observe(canvas);

  return {
    element,
    controls,
    /** Put something next to the picture, or below it where there is no room. */
    beside: (part) => {
      body.classList.add("two");
      body.append(part);
    },
    wait: () => canvas.classList.add("waiting"),
    clear: () => reset("", "note"),
    note: (message) => reset(message, "note"),
    fail: (problem) => reset(problem.message, "error"),
    show(shown) {
      Object.assign(view, { shown, svg: null });
      canvas.classList.remove("waiting");
      caption.textContent = shown.caption ?? "";
      warnings.replaceChildren(...warningList(shown.warnings ?? []));
      numbers.fill(() => tableOf(shown.table, title));
      request.fill(() => curlBox(shown.request));
      for (const button of [asSvg, asCsv]) button.disabled = false;
      draw();
    },
  };
}

/** Make a part that is filled when it is first opened. */
function fold(label) {
  const inside = h("div");
  const element = h("details", { hidden: true }, h("summary", {}, label), inside);
  let make = null;
  const refresh = () => {
    if (element.open && make) redraw(inside, make());
  };
  element.addEventListener("toggle", refresh);
  return {
    element,
    fill(maker) {
      make = maker;
      element.hidden = false;
      refresh();
    },
    clear() {
      make = null;
      element.hidden = true;
      inside.replaceChildren();
    },
  };
}

/** List what is said of an answer; nothing where nothing is. */
export function warningList(texts) {
  return texts.length ? [h("ul", { class: "warnings", "aria-label": "Warnings" }, texts.map((text) => h("li", {}, text)))] : [];
}

/** Show rows as a table; each column says how its values are written. */
export function tableOf({ columns, rows }, title) {
  const head = columns.map(({ label, text }) => h("th", { scope: "col", class: text ? "text" : null }, label));
  const body = rows.map((row) => h("tr", {}, columns.map(({ key, write, text }) =>
    h("td", { class: text ? "text" : null }, write ? write(row[key], row) : String(row[key] ?? "–")))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers of: ${title}` },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}
