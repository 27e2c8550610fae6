// What a version says of itself, as rows that two of them can be compared by.

const MINE = "workloads";

/** Return the errors of a version on what it had not seen, by group: `{name, mape, samples}`. */
export function errorsOf(facts) {
  const { scores = {}, joint } = facts;
  const predictors = Object.entries(scores.predictors ?? {}).map(([name, score]) => [name === "ensemble" ? "all own profiles" : `member ${name}`, score]);
  const groups = Object.entries(scores.groups ?? {});
  const regimes = Object.entries(joint?.scores?.regimes ?? {}).map(([name, score]) => [`all devices: ${name}`, score]);
  return [...predictors.filter(([name]) => !name.startsWith("member ")), ...groups, ...regimes, ...predictors.filter(([name]) => name.startsWith("member "))]
    .filter(([, score]) => typeof score?.mape === "number")
    .map(([name, score]) => ({ name, mape: score.mape, samples: score.samples ?? score.count ?? null }));
}

/** Return the one error that a list names: that on own profiles, or the mean over all groups. */
export function headError(facts) {
  return errorsOf(facts)[0]?.mape ?? null;
}

/** Return what a version learned from: `{name, samples, digest}` by source. */
export function sourcesOf({ snapshot, data, joint }) {
  if (snapshot) return Object.entries(snapshot).filter(([, one]) => typeof one?.samples === "number").map(([name, one]) => ({ name: name === MINE ? "own profiles" : name, samples: one.samples, digest: one.digest ?? "" }));
  const old = [];
  if (data) old.push({ name: "own profiles", samples: data.samples, digest: data.digest ?? "" });
  if (joint) old.push({ name: "all steps together", samples: joint.samples, digest: joint.data_digest ?? "" });
  return old;
}

/** Return how many steps a version learned from, own profiles or all. */
export function samplesOf(facts) {
  return facts.joint?.samples ?? facts.data?.samples ?? null;
}

/** Return a version without the name of its model, where that is the usual one. */
export function shortName(model) {
  return model.replace(/^default\//, "");
}
