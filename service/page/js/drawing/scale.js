// From values to places: linear and logarithmic axes, and where their marks stand.

/** Map [low, high] to [from, to] in even steps. */
export function linear(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

/** Map [low, high], both above 0, to [from, to] in even ratios. */
export function logarithmic(low, high, from, to) {
  const place = linear(Math.log(low), Math.log(high), from, to);
  return (value) => place(Math.log(value));
}

/** Return round values from 0 to at least `high`, about `count` of them. */
export function steps(high, count = 5) {
  if (!(high > 0)) return [0, 1];
  const rough = high / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const marks = [];
  for (let i = 0; (i - 1) * step < high * 0.999; i += 1) marks.push(i * step);
  return marks;
}

/** Return round values around and between two others, in even ratios, about `most` of them. */
export function decades(low, high, most = 8) {
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.ceil(Math.log10(high) - 1e-9);
  if (last - first <= 2) return fine(low, high, first, last);
  const every = Math.max(1, Math.ceil((last - first) / most));
  const marks = [];
  for (let power = first; power < last + every; power += every) marks.push(10 ** power);
  return marks;
}

/** Return 1, 2 and 5 of each power of ten, from the last one below `low` to the first above `high`. */
function fine(low, high, first, last) {
  const all = [];
  for (let power = first; power <= last; power += 1) all.push(...[1, 2, 5].map((digit) => digit * 10 ** power));
  const start = all.findLastIndex((mark) => mark <= low * 1.000001);
  const end = all.findIndex((mark) => mark >= high * 0.999999);
  const marks = all.slice(Math.max(0, start), end < 0 ? all.length : end + 1);
  return marks.length > 1 ? marks : [marks[0], marks[0] * 2];
}

const ruler = document.createElement("canvas").getContext("2d");

/** Return how wide a label is, in pixels. */
export function widthOf(text, weight = 400) {
  ruler.font = `${weight} 12px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(String(text)).width;
}

/** Leave out the values whose centred labels would touch one another, or cross an edge. */
export function spaced(values, place, write, { left = 0, right = Infinity } = {}) {
  let end = left;
  return values.filter((value) => {
    const half = widthOf(write(value)) / 2 + 4;
    if (place(value) - half < end || place(value) + half > right + 4) return false;
    end = place(value) + half;
    return true;
  });
}

/** Shorten a text to a width. */
export function shortened(text, width) {
  let kept = text;
  while (kept.length > 3 && widthOf(`${kept}…`) > width) kept = kept.slice(0, -1);
  return widthOf(text) <= width ? text : `${kept}…`;
}
