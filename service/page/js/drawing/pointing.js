// Say what a mark of a picture stands for: to a pointer that comes near, and to the arrow keys.

import { h, s } from "../dom.js";

const NEAR_PX = 28;

/**
 * Let the marks of a picture be read.
 *
 * Marks are `{x, y, text}` in the coordinates of the picture; arrow keys walk them in their order.
 * Returns what says it, to be put beside the picture, or null.
 */
export function readable(svg, canvas, marks) {
  if (!marks?.length) return null;
  const tip = h("div", { class: "tip", role: "status", hidden: true });
  const ring = s("circle", { r: 7, class: "seen", visibility: "hidden" });
  let at = -1;
  svg.append(ring);
  svg.setAttribute("tabindex", "0");

  function show(position) {
    at = position;
    const mark = marks[at];
    tip.hidden = !mark;
    ring.setAttribute("visibility", mark ? "visible" : "hidden");
    if (!mark) return;
    ring.setAttribute("cx", mark.x);
    ring.setAttribute("cy", mark.y);
    tip.textContent = mark.text;
    place(tip, svg, canvas, mark);
  }

  svg.addEventListener("pointermove", (event) => show(nearest(svg, event, marks)));
  svg.addEventListener("pointerleave", () => show(-1));
  svg.addEventListener("blur", () => show(-1));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") show(-1);
    if (!step) return;
    event.preventDefault();
    show((at + step + marks.length + (at < 0 && step < 0 ? 1 : 0)) % marks.length);
  });
  return tip;
}

function nearest(svg, event, marks) {
  const box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width;
  const x = (event.clientX - box.left) * scale;
  const y = (event.clientY - box.top) * scale;
  let best = -1;
  let least = NEAR_PX;
  marks.forEach((mark, position) => {
    const far = Math.hypot(outside(x, mark.left ?? mark.x, mark.x), mark.y - y);
    if (far < least) [best, least] = [position, far];
  });
  return best;
}

function outside(value, low, high) {
  return Math.max(low - value, 0, value - high);
}

function place(tip, svg, canvas, mark) {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const x = mark.x * scale;
  const room = canvas.clientWidth - tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(room, x - tip.offsetWidth / 2))}px`;
  const above = mark.y * scale - tip.offsetHeight - 12;
  tip.style.top = `${above >= 0 ? above : mark.y * scale + 14}px`;
}
