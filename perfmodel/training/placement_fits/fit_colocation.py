"""Learn what jobs on one accelerator do to each other: Gavel's pairs, and own ones on CPUs.

The law is fitted robustly, held near two jobs that take turns; the residual is the mean of a
Gaussian process for each kind of accelerator. Intervals come from pairs, and from kinds of
accelerator, that were left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.importers.jobs.gavel_throughputs import JOBS, SOURCE
from perfmodel.placement.least_squares import dampened, least_squares
from perfmodel.placement.sharing.job_load import job_type_parts
from perfmodel.placement.sharing.pair_model import Likeness, PairLaw, PairModel
from perfmodel.training.placement_fits.fitted_file import document
from perfmodel.training.placement_rows.pair_rows import (
    SHARE_OF_CORES,
    TYPICAL_SHARE,
    Pairs,
    read_own_pairs,
    read_pairs,
)

#: Constants of the law around which the fit is held: jobs that take turns, longer steps winning
#: a little. Powers are taken as logarithms, so that they stay positive.
_PRIOR = np.array([0.0, 0.0, 0.0, 0.2])
_PRIOR_WIDTH = np.array([1.0, 0.3, 0.3, 1.0])
#: Spread of log slowdowns around the law, and weight of the prior against the pairs.
_SPREAD = 0.2
_PRIOR_WEIGHT = 3.0
#: Variance of repeated log slowdowns, and freedom of the heavy tails around it.
_NOISE = 0.01
_TAILS = 4.0
_ROUNDS = 4
#: Share of true values that the stated ranges hold, and folds of the pairs left out for them.
_COVERAGE = 0.9
_FOLDS = 10
#: Fewer own rows than these teach nothing: law and residual have more unknowns.
_LEAST_OWN = 8


def fit_pairs(pairs: Pairs) -> PairModel:
    """Return the law and the residuals that measured pairs teach."""
    law, likeness = _fit_law(pairs), Likeness()
    jobs = sorted({job_type_parts(name) for name in (*pairs.subjects, *pairs.partners)})
    families = tuple(family for family, _ in jobs)
    log2_batch = np.log2([batch for _, batch in jobs])
    left = pairs.log_slowdown - law.log_slowdown(pairs.subject_loads, pairs.partner_loads)
    weights = {}
    for kind in sorted(set(pairs.kinds.tolist())):
        here = pairs.kinds == kind
        weights[kind] = _weights(pairs.take(here), left[here], likeness, jobs)
    return PairModel(
        law=law, likeness=likeness, families=families, log2_batch=log2_batch, weights=weights
    )


def fit(data: Path, profiles: Path | None = None) -> dict[str, Any]:
    """Fit law, residuals and intervals on the pairs of a folder, and on own pairs on CPUs.

    The two are fitted apart: a system that deals out cores obeys another law than an accelerator.
    """
    pairs, shares = read_pairs(data)
    constants = {
        **_fitted(pairs, shares, typical_share=TYPICAL_SHARE),
        "models": {trained.model: family for family, trained in JOBS.items()},
    }
    rows, source = len(pairs), SOURCE
    if profiles is not None:
        own, own_shares = read_own_pairs(profiles)
        if len(own) >= _LEAST_OWN:
            constants["cores"] = _fitted(own, own_shares, typical_share=SHARE_OF_CORES)
            rows, source = rows + len(own), f"{SOURCE}; own profiles"
    return document("colocation", constants, source, rows)


def _fitted(
    pairs: Pairs, shares: Mapping[str, Mapping[str, float]], *, typical_share: float
) -> dict[str, Any]:
    model = fit_pairs(pairs)
    names = {job_type_parts(name): name for by_type in shares.values() for name in by_type}
    jobs = list(zip(model.families, np.exp2(model.log2_batch).round().astype(int), strict=True))
    return {
        **model.to_constants(),
        "spread": _spread(pairs),
        "device_share": {
            kind: [round(by_type.get(names[family, int(batch)], typical_share), 4)
                   for family, batch in jobs]
            for kind, by_type in sorted(shares.items())
        },
    }  # fmt: skip


def answer(known: Pairs, questions: Pairs) -> FloatArray:
    """Return the slowdowns of questions that a model of known pairs gives.

    Returns
    -------
    ndarray, shape (questions,)
    """
    model = fit_pairs(known)
    slow = np.ones(len(questions))
    for kind in np.unique(questions.kinds).tolist():
        here = questions.kinds == kind
        asked = questions.take(here)
        slow[here] = model.slowdown(asked.subject_loads, asked.partner_loads, kind)
    return slow


def pair_folds(pairs: Pairs, folds: int) -> IntArray:
    """Return a fold for each row: one for both directions of a pair on every kind.

    Returns
    -------
    ndarray of int64, shape (rows,)
    """
    names, row = np.unique(pairs.pair_names, return_inverse=True)
    shuffled = np.random.default_rng(0).permutation(len(names))
    return np.asarray(shuffled[row] % folds, dtype=np.int64)


def _spread(pairs: Pairs) -> dict[str, list[float]]:
    """Quantiles of the logarithm of measured over predicted, by what the answer rests on."""
    kinds = np.unique(pairs.kinds, return_inverse=True)[1].astype(np.int64)
    ends = [(1 - _COVERAGE) / 2, (1 + _COVERAGE) / 2]
    left_out = {"interpolated": pair_folds(pairs, _FOLDS), "extrapolated": kinds}
    spread = {}
    for basis, folds in left_out.items():
        if folds.max() == 0:
            continue
        off = np.zeros(len(pairs))
        for fold in np.unique(folds):
            asked = folds == fold
            predicted = answer(pairs.take(~asked), pairs.take(asked))
            off[asked] = pairs.log_slowdown[asked] - np.log(predicted)
        spread[basis] = [round(float(end), 4) for end in np.quantile(off, ends)]
    return spread


def _fit_law(pairs: Pairs) -> PairLaw:
    measured = pairs.log_slowdown

    def residuals(x: FloatArray) -> FloatArray:
        law = _law(x).log_slowdown(pairs.subject_loads, pairs.partner_loads)
        off = (law - measured) / _SPREAD
        return np.concatenate([dampened(off, 1.0), _PRIOR_WEIGHT * (x - _PRIOR) / _PRIOR_WIDTH])

    return _law(least_squares(residuals, _PRIOR.copy()))


def _law(x: FloatArray) -> PairLaw:
    return PairLaw(
        scale=float(np.exp(x[0])),
        subject_power=float(np.exp(x[1])),
        partner_power=float(np.exp(x[2])),
        ratio_power=float(x[3]),
    )


def _weights(
    pairs: Pairs, left: FloatArray, likeness: Likeness, jobs: Sequence[tuple[str, int]]
) -> FloatArray:
    """Weights of the pairs in the mean of the process, laid out by subject and partner."""
    place = {job: position for position, job in enumerate(jobs)}
    rows = np.array([place[job_type_parts(name)] for name in pairs.subjects])
    columns = np.array([place[job_type_parts(name)] for name in pairs.partners])
    families = [family for family, _ in jobs]
    log2_batch = np.log2([batch for _, batch in jobs])
    alike = likeness.jobs(families, log2_batch, families, log2_batch)
    by_subject, by_partner = alike[np.ix_(rows, rows)], alike[np.ix_(columns, columns)]
    covariance = (
        likeness.constant
        + likeness.subject * by_subject
        + likeness.partner * by_partner
        + likeness.both * by_subject * by_partner
    )
    weights = np.zeros((len(jobs), len(jobs)))
    weights[rows, columns] = _robust_solve(covariance, left)
    return weights


def _robust_solve(covariance: FloatArray, left: FloatArray) -> FloatArray:
    """Weights under noise with the tails of Student's distribution, by reweighting."""
    noise = np.full(len(left), _NOISE)
    for _ in range(_ROUNDS):
        solved = np.linalg.solve(covariance + np.diag(noise), left)
        off = left - covariance @ solved
        noise = _NOISE * (_TAILS + off**2 / _NOISE) / (_TAILS + 1)
    return np.asarray(solved)
