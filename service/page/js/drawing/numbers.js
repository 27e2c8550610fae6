// Write numbers for people: four digits that matter, SI prefixes. Files keep all digits.

const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const SMALL = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const NONE = "–";

const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** Write a number: 3,746 or 0.01234. */
export function number(value) {
  if (!isNumber(value)) return NONE;
  return Math.abs(value) >= 1000 ? whole.format(value) : plain.format(value);
}

/** Write a number with a prefix: 312 T. */
export function prefixed(value, unit, digits = 3) {
  if (!isNumber(value)) return NONE;
  const [factor, prefix] = PREFIXES.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return `${Number((value / factor).toPrecision(digits))} ${prefix}${unit}`.trim();
}

/** Write a time: 136.7 ms. */
export function time(value_s) {
  if (!isNumber(value_s)) return NONE;
  if (value_s === 0) return "0 s";
  const [factor, unit] = SMALL.find(([least]) => Math.abs(value_s) >= least) ?? SMALL.at(-1);
  return `${plain.format(value_s / factor)} ${unit}`;
}

const BINARY = [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];

/** Write a size: 10.4 GiB. */
export function bytes(value) {
  if (!isNumber(value)) return NONE;
  const [factor, unit] = BINARY.find(([least]) => Math.abs(value) >= least) ?? [1, "B"];
  return `${Number((value / factor).toPrecision(3))} ${unit}`;
}

/** Write a share: 87 %, 0.4 %. */
export function share(value) {
  if (!isNumber(value)) return NONE;
  const percent = value * 100;
  if (percent > 0 && percent < 0.1) return "<0.1 %";
  const digits = percent !== 0 && Math.abs(percent) < 10 ? 1 : 0;
  return `${percent.toFixed(digits)} %`;
}

/** Write an amount of money: 0.0123 USD. */
export function money(value, currency) {
  return isNumber(value) ? `${Number(value.toPrecision(3))} ${currency}` : NONE;
}

/** Write a date and time, UTC. */
export function moment(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.valueOf()) ? String(iso) : `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
