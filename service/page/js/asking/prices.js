// What an hour of an accelerator costs: as the service keeps it, and over that what is typed here.

import { ask, question } from "../service/service.js";

const PLACE = "perfmodel-prices";
let kept = null;

/** Fetch the prices of the service, once; without them the page goes on. */
export async function loadPrices() {
  if (kept !== null) return;
  try {
    kept = new Map((await ask(question("GET", "v1/prices"))).prices.map((price) => [price.accelerator, price]));
  } catch {
    kept = new Map();
  }
}

function typed() {
  return JSON.parse(sessionStorage.getItem(PLACE) ?? "{}");
}

/** Return the currency of all prices: that of the first one that is kept. */
export function currencyInUse() {
  return kept?.values().next().value?.currency ?? "USD";
}

/** Return what an hour costs; null where it is not known, or known in another currency. */
export function priceOf(accelerator) {
  const currency = currencyInUse();
  const own = typed()[accelerator];
  if (own !== undefined) return { per_hour: own, currency };
  const price = kept?.get(accelerator);
  return { per_hour: price?.currency === currency ? price.per_hour : null, currency };
}

/** Set a price for this tab; an empty text takes it back, nonsense is left out. */
export function setPrice(accelerator, text) {
  const prices = typed();
  const value = Number(text.replace(",", "."));
  if (text.trim() === "") delete prices[accelerator];
  else if (value > 0 && Number.isFinite(value)) prices[accelerator] = value;
  sessionStorage.setItem(PLACE, JSON.stringify(prices));
  dispatchEvent(new Event("perfmodel-prices"));
}

/** Return what a million samples cost: accelerators x price / (samples in an hour) x 1e6. */
export function costOfMillion({ per_hour, count, samples_per_second }) {
  if (!per_hour || !count || !samples_per_second) return null;
  return ((count * per_hour) / (3600 * samples_per_second)) * 1e6;
}
