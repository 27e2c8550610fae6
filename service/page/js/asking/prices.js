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

/** Set a price for this tab; an empty text takes it back. Tells whether the text is one of the two. */
export function setPrice(accelerator, text) {
  const prices = typed();
  const stated = text.trim();
  // A comma parts thousands for some and digits after the point for others.
  if (stated !== "" && !(/^\d*\.?\d+$/.test(stated) && Number(stated) > 0)) return false;
  if (stated === "") delete prices[accelerator];
  else prices[accelerator] = Number(stated);
  sessionStorage.setItem(PLACE, JSON.stringify(prices));
  dispatchEvent(new Event("perfmodel-prices"));
  return true;
}

/** Return what a million samples cost on accelerators of some kinds; null where a price is not known. */
export function costOfMillion(kinds, samples_per_second) {
  const prices = kinds.map(({ accelerator, whole_accelerators: whole }) => {
    const { per_hour } = priceOf(accelerator);
    return per_hour && whole * per_hour;
  });
  if (!prices.length || prices.some((price) => !price) || !samples_per_second) return null;
  return (prices.reduce((sum, price) => sum + price, 0) / (3600 * samples_per_second)) * 1e6;
}
