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

/** Return the powers of ten around and between two values, thinned to `most`. */
export function decades(low, high, most = 8) {
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.ceil(Math.log10(high) - 1e-9);
  const every = Math.max(1, Math.ceil((last - first) / most));
  const marks = [];
  for (let power = first; power <= Math.max(last, first + 1); power += every) marks.push(10 ** power);
  return marks;
}

/** Guess how wide a text of 12 px is; labels need no more than that. */
export function widthOf(text, pixels = 6.8) {
  return String(text).length * pixels;
}

/** Shorten a text to a width. */
export function shortened(text, width, pixels = 6.8) {
  const most = Math.max(3, Math.floor(width / pixels));
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
