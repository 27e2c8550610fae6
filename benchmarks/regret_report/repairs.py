r"""Why predictions lose: parts of a predicted table made right, one at a time.

The error of a cell is a sum of logarithms: of a job type's *level*, of what one *kind* of
accelerator is to another, of what more *accelerators* bring. Each part in turn is taken from the
measured table, or all cells of one family of jobs, and the rest left as predicted. What a policy
then loses less is what the part costs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from cluster_simulation.rates import Rates
from cluster_simulation.rounds import FloatArray

from perfmodel.graph.job import split_label


def families(table: Rates) -> list[str]:
    """Return the name of each key's job type, whatever its batch size."""
    return [split_label(label)[0] for label, _ in table.keys]


def log_errors(seen: Rates, measured: Rates) -> FloatArray:
    """Return ln(measured / seen) of jobs alone; NaN where either says that they do not run."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(measured.alone / seen.alone)
    return np.where(np.isfinite(found), found, np.nan)


def repaired(seen: Rates, measured: Rates) -> dict[str, Rates]:
    """Return the table with each part made right, by the name of the part.

    Parameters
    ----------
    seen : Rates
        Without gaps. Pairs keep their share of the rates alone.
    """
    off = log_errors(seen, measured)
    labels = np.array([label for label, _ in seen.keys])
    per_label = _means(off, labels)
    levels = np.broadcast_to(mean_of_known(per_label, axis=1)[:, None], off.shape)
    between_kinds = off - mean_of_known(off, axis=1)[:, None]
    parts = {
        "levels of job types": levels,
        "ratios between kinds": between_kinds,
        "what more accelerators bring": off - per_label,
    }
    found = {name: _with(seen, seen.alone * np.exp(np.nan_to_num(p))) for name, p in parts.items()}
    names = np.array(families(seen))
    for name in sorted({*names}):
        own = (names == name)[:, None]
        found[f"all of {name}"] = _with(seen, np.where(own, measured.alone, seen.alone))
    return found


def with_typical_kinds(seen: Rates) -> Rates:
    """Return a table with gaps filled by what kinds are to one another for the jobs that are known.

    Equal rates on all kinds prefer none for a job by itself. Beside jobs that are faster on one
    kind they say that the other kind is better used for this one. Nothing measured is needed.

    Parameters
    ----------
    seen : Rates
        With gaps.
    """
    with np.errstate(divide="ignore"):
        log = np.log(np.where(seen.alone > 0, seen.alone, np.nan))
    whole = log[np.isfinite(log).all(axis=1)]
    typical = whole.mean(axis=0) if len(whole) else np.zeros(log.shape[1])
    level = mean_of_known(log - typical, axis=1)
    # No kind is known: any level will do.
    level = np.where(np.isnan(level), np.log(seen.accelerators), level)
    filled = np.exp(level[:, None] + typical)
    return replace(seen, alone=np.where(np.isnan(seen.alone), filled, seen.alone)).usable()


def _means(values: FloatArray, labels: np.ndarray[tuple[int], np.dtype[np.str_]]) -> FloatArray:
    """Return for each row the mean over the rows of its label."""
    return np.stack([mean_of_known(values[labels == label], axis=0) for label in labels])


def mean_of_known(values: FloatArray, axis: int) -> FloatArray:
    """Return the mean of what is known; NaN where nothing is."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=axis)
    return np.where(known.any(axis=axis), total / np.maximum(known.sum(axis=axis), 1), np.nan)


def _with(seen: Rates, alone: FloatArray) -> Rates:
    """Return a table with other rates alone; beside another job the same share of them is kept."""
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.nan_to_num(alone / seen.alone, nan=1.0, posinf=1.0)
    return replace(seen, alone=alone, beside=seen.beside * factor[:, None])
