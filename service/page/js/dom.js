// Make elements; text is always text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Make an HTML element; `onclick` and its like take functions. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

const NAMES = ["id", "name", "data-verb", "data-price", "aria-label", "href"];

function nameOf(element) {
  const chosen = element.type === "radio" ? element.value : "";
  return [element.localName, chosen, ...NAMES.map((name) => element.getAttribute(name) ?? ""), element.children.length ? "" : element.textContent].join("\n");
}

/**
 * Put other children into an element; the keyboard stays where it is.
 *
 * Whoever stood on a control stands on the one of the same name afterwards, on the first of those
 * that are left where it is gone, or on the element itself.
 */
export function redraw(element, ...children) {
  const stood = element.contains(document.activeElement) && element !== document.activeElement ? document.activeElement : null;
  const name = stood && nameOf(stood);
  const place = stood && [...element.querySelectorAll(stood.localName)].filter((one) => nameOf(one) === name).indexOf(stood);
  element.replaceChildren(...children.flat(2).filter((child) => child !== null && child !== undefined));
  if (!stood || element.contains(stood)) return;
  const all = [...element.querySelectorAll(stood.localName)];
  const same = all.filter((one) => nameOf(one) === name);
  const next = same[place] ?? same[0] ?? all.find((one) => !one.disabled) ?? element;
  if (next === element && !element.hasAttribute("tabindex")) element.setAttribute("tabindex", "-1");
  next.focus({ preventScroll: true });
}

/** Return the element with an id. */
export function $(id) {
  return document.getElementById(id);
}

/** Tell a reader of the screen what happened elsewhere. */
export function say(text) {
  $("said").textContent = text;
}

const waiting = new WeakMap();

/**
 * Show a dialog; resolves to what `told(word)` makes of the word that it is closed with, or to null
 * where it is shown again before it has said so: it says that it was closed a moment later.
 */
export function shown(dialog, told) {
  waiting.get(dialog)?.(null);
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    waiting.set(dialog, resolve);
    dialog.onclose = () => dialog.open || resolve(told(dialog.returnValue));
  });
}
