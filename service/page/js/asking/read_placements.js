// Placements as the service reads them: what a job holds by them, and what people train with there.

import { ask, question } from "../service/service.js";

/** Read placements; null stands where one cannot be read: whoever asks about it is told why. */
export async function readPlacements(placements, signal) {
  return (await ask(question("POST", "v1/placements", { placements }), { signal })).placements;
}

/** Return how many accelerators a placement has. */
export function countOf({ kinds }) {
  return kinds.reduce((sum, { count }) => sum + count, 0);
}

/** Return the accelerator that all hosts of a placement have; null where they differ. */
export function onlyAccelerator({ placement: { nodes } }) {
  const [{ accelerator }] = nodes;
  return nodes.every((node) => node.accelerator === accelerator) ? accelerator : null;
}

/** Put another accelerator into all hosts of a placement; a link belongs to the one that it has. */
export function withAccelerator({ placement }, accelerator) {
  const nodes = placement.nodes.map((node) => ({ ...node, accelerator, link: accelerator === node.accelerator ? node.link : null }));
  return { ...placement, nodes };
}
