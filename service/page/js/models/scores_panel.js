// How good two versions are on what they had not seen, and what each has learned from.

import { figure } from "../drawing/figure.js";
import { number, share } from "../drawing/numbers.js";
import { errorsOf, shortName, sourcesOf } from "./facts.js";
import { drawPairs } from "./pairs.js";

/** Make both pictures. */
export function scorePanels() {
  const errors = figure({ name: "scores", title: "Error by group", about: "Mean error on families of models that the version had not seen, as its training noted it." });
  const sources = figure({ name: "sources", title: "What each learned from", about: "Measured steps by source; equal data has an equal digest." });

  return {
    elements: [errors.element, sources.element],
    clear() {
      errors.clear();
      sources.clear();
    },
    show(serving, chosen, request) {
      const both = [serving, chosen].filter((one, i, all) => one && all.findIndex((other) => other?.model === one.model) === i);
      const names = both.map((one) => shortName(one.model) + (one.serving ? " (serves)" : ""));
      const scored = joined(both.map(errorsOf), "mape");
      const learned = joined(both.map(sourcesOf), "samples");
      if (scored.length) errors.show({ draw: (width) => drawPairs(scored.map((row) => pair(row, share, "error")), names, width), table: tableOf(scored, names, share), request, caption: difference(scored, names) });
      else errors.note("These versions say nothing of their errors.");
      if (learned.length) sources.show({ draw: (width) => drawPairs(learned.map((row) => pair(row, number, "steps")), names, width), table: tableOf(learned, names, number), request, caption: same(learned, names) });
      else sources.note("These versions say nothing of their data.");
    },
  };
}

/** Return one row a group with the value of each version, null where it has none. */
function joined(lists, key) {
  const names = [...new Set(lists.flat().map(({ name }) => name))];
  return names.map((name) => {
    const found = lists.map((list) => list.find((one) => one.name === name));
    return { name, values: found.map((one) => one?.[key] ?? null), digests: found.map((one) => one?.digest ?? "") };
  });
}

function pair({ name, values }, write, what) {
  const labels = values.map((value) => (value === null ? "" : write(value)));
  return { name, values, labels, text: [name, ...values.map((value) => (value === null ? `no ${what}` : `${what} ${write(value)}`))].join("\n") };
}

function tableOf(rows, names, write) {
  const columns = [{ key: "name", label: "Group", text: true }, ...names.map((label, i) => ({ key: `value_${i}`, label, write }))];
  return { columns, rows: rows.map(({ name, values }) => Object.fromEntries([["name", name], ...values.map((value, i) => [`value_${i}`, value])])) };
}

function difference(rows, names) {
  if (names.length < 2) return "";
  const both = rows.filter(({ values }) => values.every((value) => value !== null));
  const worse = both.filter(({ values: [before, after] }) => after > before).length;
  return both.length ? `${names[1]} is worse in ${worse} of ${both.length} groups that both state.` : "They have no group in common.";
}

function same(rows, names) {
  if (names.length < 2) return "";
  const equal = rows.filter(({ digests: [one, other] }) => one && one === other).map(({ name }) => name);
  return equal.length ? `The same in both: ${equal.join(", ")}.` : "No source is the same in both.";
}
