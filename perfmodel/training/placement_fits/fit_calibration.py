r"""Learn a prior of residuals: the one under which measured steps are most probable.

Standard deviations :math:`\sigma`, means and noise maximise the marginal likelihood of sets of
steps, linearised at the most probable residual, around a guess:

.. math::

    \sum \log N(y - h(z) + H (z - m);\ 0,\ S) - \sum (\log \sigma - \log guess)^2 / 2 w^2,
    \qquad S = R + \sum_t \sigma_t^2\, H_t B_t H_t^T

by Adam, with the gradient
:math:`\tfrac12 tr((\alpha \alpha^T - S^{-1})\, \partial S)`, :math:`\alpha = S^{-1} (...)`. A set
holds steps of one job on one cluster and a few of other jobs there and of the job elsewhere, so
that what they share is learned, too.

Reference: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 3 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import calibrate
from perfmodel.placement.calibration.observed_steps import Comparisons, ObservedSteps
from perfmodel.placement.calibration.paired_rows import PairedRows
from perfmodel.placement.calibration.posterior import probable, spread_of
from perfmodel.placement.calibration.residual_prior import Noise, ResidualPrior, Term
from perfmodel.placement.calibration.step_response import Field, Response
from perfmodel.placement.fitted.forms import as_plain
from perfmodel.training.placement_fits.fitted_file import document, rounded
from perfmodel.training.placement_rows.script_rows import (
    Group,
    Measured,
    is_locked,
    predicting_version,
    script_groups,
)

SOURCE = (
    "siasosp23/artifacts sia-simulator/traces (no licence stated), "
    "stanford-futuredata/gavel scheduler/simulation_throughputs.json (MIT)"
)

Groups = Mapping[Group, Measured]

_STEPS = 12
_RATE = 0.12
#: How far, in logs, the guess may be off. Broad guesses follow the few jobs there are: a job
#: that is unlike all of them is then answered worse than by the guess.
_GUESS_WIDTH = 0.15
_OWN_ROWS, _OTHER_ROWS = 24, 4
_NOISES = ("compute", "sync", "sync_share")


#: Where the fit starts, and which terms it has. Laid down by hand after looking at Sia's tables,
#: all of them: round numbers, no fit.
START = ResidualPrior(
    means={"fixed": -2.0},
    sds={
        "device.level.all": 0.5,
        "device.level.place": 0.3,
        "device.level.job": 0.4,
        "device.level.own": 0.2,
        "device.batch_slope.job": 0.05,
        "device.batch_slope.own": 0.05,
        "device.batch_curve.job": 0.15,
        "device.batch_curve.own": 0.15,
        "host.level.all": 1.0,
        "host.level.place": 0.5,
        "host.level.job": 0.6,
        "host.level.own": 0.4,
        "host.batch_curve.job": 0.2,
        "host.batch_curve.own": 0.3,
        # Of hosts and libraries; few jobs of the tables are fed slowly enough to tell.
        "feed.level.all": 0.3,
        "feed.level.place": 0.2,
        "feed.level.job": 0.5,
        "feed.level.own": 0.2,
        "feed.batch_curve.job": 0.15,
        "feed.batch_curve.own": 0.15,
        "spread.alone.all": 0.05,
        "spread.alone.place": 0.05,
        "spread.alone.job": 0.05,
        "spread.alone.own": 0.05,
        "spread.share_slope_of_batch.own": 0.08,
        "spread.batch.own": 0.05,
        "spread.host_slope.own": 0.03,
        "spread.placement_of_batch.own": 0.08,
        "spread.setting.own": 0.4,
        "fixed.level.all": 1.0,
        "fixed.level.place": 1.0,
        "fixed.level.own": 0.5,
        "fixed.batch_curve.own": 0.2,
        "communication.level.all": 0.5,
        "communication.level.job": 0.3,
        "communication.batch_curve.own": 0.1,
        "between.level.place": 1.2,
        "between.level.own": 0.75,
        "between.share_slope.place": 0.3,
        "between.share_slope.own": 0.15,
        "between.host_slope.place": 0.15,
        "between.host_slope.own": 0.15,
        "between.hosts.place": 0.22,
        "between.hosts.own": 0.15,
        "between.rank_slope.place": 0.3,
        "between.rank_slope.own": 0.15,
        "between.placement.place": 0.22,
        "between.placement.own": 0.15,
        "within.level.all": 0.7,
        "within.level.place": 1.1,
        "within.level.own": 0.5,
        "within.share_slope.place": 0.3,
        "within.share_slope.own": 0.15,
        "tail.level.all": 0.7,
        "tail.level.job": 0.6,
        "tail.level.own": 0.6,
        "window.level.all": 0.3,
        "window.level.place": 0.3,
        "window.level.job": 0.2,
        "window.level.own": 0.6,
        # Of jobs that are known by a name alone everything is a guess.
        "device.level.guess_place": 0.5,
        "device.level.guess_job": 1.5,
        "device.level.guess_own": 0.4,
        "device.batch_slope.guess_job": 0.3,
        "host.level.guess_place": 0.5,
        "host.level.guess_job": 1.0,
        "host.level.guess_own": 0.3,
        "fixed.level.guess_job": 1.0,
        "communication.level.guess_job": 1.5,
    },
    noise=Noise(compute=0.03, sync=0.016, sync_share=0.15, misplaced=0.05, freedom=3.0),
    freedom=1.0,
    bare=0.2,
)  # fmt: skip


def fit(data: Path, *, models: Path = Path("models"), steps: int = _STEPS) -> dict[str, Any]:
    """Fit the prior of residuals on every job and cluster but for those that are locked away.

    Parameters
    ----------
    models : Path
        Folder of the trained models that predict single accelerators.
    """
    groups = {g: m for g, m in script_groups(data, models).items() if not is_locked(m.model)}
    prior = fit_prior(groups, steps=steps)
    rows = sum(len(one.placements) for one in groups.values())
    model = predicting_version(models)
    return document("calibration", rounded(as_plain(prior)), SOURCE, rows, model=model)


@dataclass(frozen=True)
class Sample:
    """Steps whose probability is maximised, with what no number changes."""

    steps: ObservedSteps
    pairs: PairedRows
    terms: Mapping[str, FloatArray]

    @classmethod
    def of(cls, steps: ObservedSteps, names: Iterable[str]) -> Sample:
        """Lay out the terms of the covariance."""
        pairs = PairedRows.of(steps.cells)
        return cls(steps, pairs, {name: pairs.term(Term.parse(name)) for name in names})


def fit_prior(groups: Groups, *, steps: int = _STEPS, seed: int = 0) -> ResidualPrior:
    """Learn a prior from steps of some jobs on some clusters.

    Parameters
    ----------
    steps : int
        Of the ascent; 0 leaves the guess as it is but for the width of its intervals.
    seed : int
        Of the choice of steps.
    """
    samples = [Sample.of(s, START.sds) for s in draw_steps(groups, seed)]
    x = guess = _packed(START)
    first, second = np.zeros(x.shape), np.zeros(x.shape)
    for step in range(1, steps + 1):
        prior = _unpacked(x)
        slope = np.sum([gradient(sample, prior) for sample in samples], axis=0)
        slope = slope - (x - guess) / _GUESS_WIDTH**2
        first, second = 0.9 * first + 0.1 * slope, 0.95 * second + 0.05 * slope**2
        size = np.sqrt(second / (1 - 0.95**step)) + 1e-9
        x = x + _RATE * (1 - step / (steps + 1)) * first / (1 - 0.9**step) / size
    return inflated(_unpacked(x), groups, seed)


def draw_steps(groups: Groups, seed: int) -> list[ObservedSteps]:
    """Return a set of steps for every job on every cluster, with some of other jobs or clusters."""
    sets = []
    for index, (group, measured) in enumerate(groups.items()):
        rng = np.random.default_rng([seed, index])
        chosen = [_some(measured, _OWN_ROWS, rng)]
        for other, beside in groups.items():
            if other != group and (other.cluster == group.cluster or other.job == group.job):
                chosen.append(_some(beside, _OTHER_ROWS, rng))
        sets.append(ObservedSteps.join(chosen).pooled())
    return sets


def _some(measured: Measured, most: int, rng: np.random.Generator) -> ObservedSteps:
    count = len(measured.placements)
    rows = rng.choice(count, min(most, count), replace=False)
    return measured.steps.take(np.sort(rows))


def gradient(sample: Sample, prior: ResidualPrior) -> FloatArray:
    """Return the slope of the log marginal likelihood by every packed number."""
    cells = sample.steps.cells
    comparisons = Comparisons.of(sample.steps, prior.noise)
    found = probable(sample.steps, prior, sample.pairs)[0]
    covariance = sample.pairs.covariance(prior) + sample.pairs.own(found.wider[:, None])
    mean = prior.mean(cells)
    here = Response(cells, mean)(mean + found.moved)
    slopes, rows = comparisons.of_channels(here.by_channel), comparisons.rows
    spread = spread_of(covariance[:, rows[:, None], rows], slopes)
    errors = comparisons.errors(found.trust)
    inverse = np.linalg.inv(spread + errors)
    missing = comparisons.values - comparisons.of_channels(here.channels)
    alpha = inverse @ (missing + np.einsum("fj,fj->j", slopes, found.moved[:, rows]))
    pull = np.outer(alpha, alpha) - inverse
    by_term = [
        sd**2 * _pulled(pull, sample.terms[name][rows[:, None], rows], slopes, name)
        for name, sd in prior.sds.items()
    ]
    by_noise = _by_noise(pull / found.trust, comparisons, prior)
    return np.concatenate([_by_mean(alpha, slopes, rows, sample, prior), by_term, by_noise])


def _pulled(pull: FloatArray, term: FloatArray, slopes: FloatArray, name: str) -> float:
    slope = slopes[Term.parse(name).field]
    return float(slope @ ((pull * term) @ slope))


def _by_mean(
    alpha: FloatArray,
    slopes: FloatArray,
    rows: npt.NDArray[np.int64],
    sample: Sample,
    prior: ResidualPrior,
) -> list[float]:
    by_field = slopes @ alpha
    cells = sample.steps.cells
    alone = slopes[Field.SPREAD] * (cells.ranks == 1)[rows]
    extra = {"alone": float(alone @ alpha)}
    return [
        extra[name] if name in extra else float(by_field[Field[name.upper()]])
        for name in prior.means
    ]


def _by_noise(pull: FloatArray, comparisons: Comparisons, prior: ResidualPrior) -> list[float]:
    each = 0.5 * np.diag(pull)
    growth = comparisons.mix[0] == 0
    # What is misplaced was laid down, not learned.
    learned = comparisons.variance - comparisons.misplaced**2
    floor = np.where(growth, prior.noise.sync**2, 0.0)
    shares = (learned * ~growth, floor, (learned - floor) * growth)
    return [float(2.0 * each @ share) for share in shares]


def _packed(prior: ResidualPrior) -> FloatArray:
    """Return means, then logarithms of standard deviations and of the noise."""
    noise = [getattr(prior.noise, name) for name in _NOISES]
    return np.concatenate([list(prior.means.values()), np.log([*prior.sds.values(), *noise])])


def _unpacked(x: FloatArray) -> ResidualPrior:
    means, rest = x[: len(START.means)], np.exp(x[len(START.means) :])
    sds, noise = rest[: len(START.sds)], rest[len(START.sds) :]
    return ResidualPrior(
        means=dict(zip(START.means, map(float, means), strict=True)),
        sds=dict(zip(START.sds, map(float, sds), strict=True)),
        noise=replace(START.noise, **dict(zip(_NOISES, map(float, noise), strict=True))),
        freedom=START.freedom,
        bare=START.bare,
    )


def inflated(prior: ResidualPrior, groups: Groups, seed: int) -> ResidualPrior:
    """Widen intervals until 90 % of unobserved placements lie within those of 90 %."""
    plain = replace(prior, noise=replace(prior.noise, inflation=1.0))
    odd = [_odd(measured, plain, seed) for measured in groups.values()]
    inflation = float(np.quantile(np.concatenate(odd), 0.9)) / DEVIATIONS
    return replace(prior, noise=replace(prior.noise, inflation=inflation))


def _odd(measured: Measured, prior: ResidualPrior, seed: int) -> FloatArray:
    """Return errors over their standard deviations where three placements were observed."""
    rng = np.random.default_rng(seed)
    placements = np.unique(measured.placements)
    if len(placements) <= 3:
        return np.empty(0)
    chosen = rng.choice(placements, 3, replace=False)
    seen = np.isin(measured.placements, chosen)
    steps = calibrate(measured.steps.take(seen), prior).apply(measured.steps.take(~seen).cells)
    off = np.log(steps.parts.step_time_s / measured.steps.step_time_s[~seen])
    return np.abs(off) / steps.log_sd
