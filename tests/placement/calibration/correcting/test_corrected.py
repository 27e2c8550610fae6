"""Steps of many jobs at once are corrected as each alone, and as the dense equations say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.correcting.corrected import (
    CalibratedSteps,
    correct,
    correct_weighed,
)
from perfmodel.placement.calibration.observed_steps import Comparisons, same_cells
from perfmodel.placement.calibration.paired_rows import ObservedColumns, PairedRows
from perfmodel.placement.calibration.posterior import Posterior
from perfmodel.placement.calibration.residual_prior import (
    PLACES,
    ResidualPrior,
    Term,
    fitted_prior,
)
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field, Response

JOBS = [("job",), ("job", "other", "third")]


def calibrated(seed: int, rows: int = 12) -> tuple[Calibration, StepCells]:
    """Return a calibration of one or three jobs, and steps of them and of another one to ask."""
    random, jobs = np.random.default_rng(seed), JOBS[seed % 2]
    seen = world.random_cells(random, rows, jobs, guessed=seed % 3 == 0)
    # Of a cell that was measured twice the equations below say nothing.
    distinct = dict(zip(seen.identities(), range(rows), strict=True))
    seen = seen.take(np.array(list(distinct.values())))
    calibration = calibrate(world.random_steps(random, seen))
    asked = world.random_cells(random, 20, (*jobs, "new"), guessed=seed % 3 == 0)
    return calibration, StepCells.join([asked, seen])


#: What a term is, by its scope and by its shape, of two steps.
SCOPES = {
    "all": lambda a, b, place: True,
    "place": lambda a, b, place: a[place] == b[place],
    "job": lambda a, b, place: a["job"] == b["job"],
    "own": lambda a, b, place: a["job"] == b["job"] and a[place] == b[place],
}


def near(a: float, b: float, length: float) -> float:
    return math.exp(-((a - b) ** 2) / (2 * length**2))


def batch_curve(a: dict, b: dict) -> float:
    return near(math.log(a["batch_size"]), math.log(b["batch_size"]), 1.0)


def product(name: str) -> Callable[[dict, dict], float]:
    return lambda a, b: math.log(a[name]) * math.log(b[name])


def hosts(a: dict, b: dict) -> float:
    return near(2 / a["hosts"], 2 / b["hosts"], 0.5)


def placement(a: dict, b: dict) -> float:
    logs = [near(math.log(a[n]), math.log(b[n]), 0.7) for n in ("largest_share", "ranks")]
    return math.prod(logs) * near(2 / a["hosts"], 2 / b["hosts"], 0.7)


SHAPES: dict[str, Callable[[dict, dict], float]] = {
    "level": lambda a, b: 1.0,
    "batch_slope": lambda a, b: math.log(a["batch_size"] / 64) * math.log(b["batch_size"] / 64),
    "batch_curve": batch_curve,
    "batch": lambda a, b: a["batch_size"] == b["batch_size"],
    "alone": lambda a, b: a["ranks"] == b["ranks"] == 1,
    "share_slope": product("largest_share"),
    "host_slope": product("hosts"),
    "share_slope_of_batch": lambda a, b: product("largest_share")(a, b) * batch_curve(a, b),
    "hosts": hosts,
    "rank_slope": lambda a, b: product("ranks")(a, b) * hosts(a, b),
    "placement": placement,
    "setting": lambda a, b: a["setting"] == b["setting"] != "",
    "placement_of_batch": lambda a, b: placement(a, b) * batch_curve(a, b),
}
COLUMNS = (
    "job", "machine", "link", "fabric", "setting", "guessed", "batch_size", "ranks", "hosts",
    "largest_share",
)  # fmt: skip


def covariance(prior: ResidualPrior, cells: StepCells, seen: StepCells) -> np.ndarray:
    """Return the sum over terms, pair by pair."""
    a, b = (
        [{name: getattr(one, name)[row].item() for name in COLUMNS} for row in range(len(one))]
        for one in (cells, seen)
    )
    total = np.zeros((len(Field), len(a), len(b)))
    for name, sd in prior.sds.items():
        field, shape, scope = name.split(".")
        place = PLACES[Field[field.upper()]]
        common, alike = SCOPES[scope.removeprefix("guess_")], SHAPES[shape]
        for (i, one), (j, other) in itertools.product(enumerate(a), enumerate(b)):
            guess = not scope.startswith("guess_") or (one["guessed"] and other["guessed"])
            if guess and common(one, other, place):
                total[Field[field.upper()], i, j] += sd**2 * alike(one, other)
    return total


def widened(of: Posterior, cells: StepCells, seen: StepCells) -> np.ndarray:
    """Return by how much covariances are wider than expected."""
    same = cells.job[:, None] == seen.job
    places = [getattr(cells, PLACES[one])[:, None] == getattr(seen, PLACES[one]) for one in Field]
    return np.stack([same * at * of.wider[one] for one, at in zip(Field, places, strict=True)])


def dense(calibration: Calibration, cells: StepCells) -> tuple[np.ndarray, np.ndarray]:
    """Return step times and standard deviations, row by row of the equations."""
    of, observed = calibration.posterior, calibration.observed
    prior, seen = of.prior, observed.cells
    noise, compared = prior.noise, Comparisons.of(observed, prior.noise)
    wide = widened(of, cells, seen)
    between = covariance(prior, cells, seen) + wide
    residual = prior.mean(cells) + np.einsum("fij,fj->fi", between, of.coefficients)
    found = Response(cells, prior.neutral(cells))(residual)
    slopes = found.by_channel.sum(axis=1)
    inside = covariance(prior, seen, seen) + widened(of, seen, seen)
    moved = np.einsum("fij,fj->fi", inside, of.coefficients)
    there = Response(seen, prior.neutral(seen))(prior.mean(seen) + moved)
    h, rows = compared.of_channels(there.by_channel), compared.rows
    errors = compared.errors(of.trust)
    spread = np.einsum("fc,fcd,fd->cd", h, inside[:, rows[:, None], rows], h) + errors
    same = same_cells(cells, seen)[:, rows]
    own = same[None] * compared.own(of.trust)[:, None]
    shared = np.einsum("fi,fic,fc->ic", slopes, between[:, :, rows], h) + own.sum(axis=0)
    unknown = np.stack([np.diag(one) for one in covariance(prior, cells, cells)]) + wide.max(axis=2)
    exposed_share = 1 - np.exp(-found.channels[1])
    before = np.sum(slopes**2 * unknown, axis=0)
    usual = noise.variances(exposed_share).sum(axis=0)
    before += np.where(same.any(axis=1), own.sum(axis=(0, 2)), usual)
    taken = np.einsum("ic,cd,id->i", shared, np.linalg.inv(spread), shared)
    weights = np.linalg.solve(errors, compared.values - compared.of_channels(there.channels))
    # In the step alone, and in how communication lengthens it.
    alone, growth = own @ weights
    parts = found.parts
    bare_s = parts.step_time_s - parts.exposed_communication_s
    longer = np.where(
        parts.communication_s > 0,
        np.maximum(parts.step_time_s / bare_s * np.exp(growth), 1.0),
        1.0,
    )
    after = np.maximum(before - taken, 0.0) + noise.repeat**2
    return bare_s * longer * np.exp(alone), noise.inflation * np.sqrt(after)


@pytest.mark.parametrize("seed", range(12))
def test_columns_say_what_the_equations_say(seed: int) -> None:
    calibration, cells = calibrated(seed)
    found = correct([calibration.posterior], cells)
    step_s, log_sd = dense(calibration, cells)
    assert found.parts.step_time_s == pytest.approx(step_s, rel=1e-9)
    assert found.log_sd == pytest.approx(log_sd, rel=1e-7)
    assert found.seen[20:].all()


def test_some_of_these_jobs_lie_farther_off_than_expected() -> None:
    assert {bool(calibrated(seed)[0].posterior.wider.any()) for seed in range(12)} == {True, False}


@pytest.mark.parametrize("guessed", [False, True])
def test_pairs_vary_together_as_rows_do(guessed: bool) -> None:
    random, prior = np.random.default_rng(3), fitted_prior()
    one, other = (world.random_cells(random, 6, JOBS[1], guessed) for _ in range(2))
    cells = world.random_cells(random, 9, JOBS[1], guessed)
    which = np.array([0, 0, 1, 1, 1, 0, 1, 0, 1])
    pairs = PairedRows.of(cells, [ObservedColumns.of(one), ObservedColumns.of(other)], which)
    found = pairs.covariance(prior)
    by_term = sum(
        sd**2 * np.eye(len(Field))[term.field][:, None, None] * pairs.term(term)
        for term, sd in ((Term.parse(name), sd) for name, sd in prior.sds.items())
    )
    expected = [covariance(prior, cells, known) for known in (one, other)]
    for row, code in enumerate(which.tolist()):
        assert found[:, row] == pytest.approx(expected[code][:, row], rel=1e-12)
        assert by_term[:, row] == pytest.approx(expected[code][:, row], rel=1e-12)
    itself = [np.diag(each) for each in covariance(prior, cells, cells)]
    assert prior.variance(cells) == pytest.approx(np.stack(itself), rel=1e-12)


def test_every_shape_has_a_term_that_is_tried() -> None:
    assert {name.split(".")[1] for name in fitted_prior().sds} == SHAPES.keys()


def test_many_jobs_are_corrected_as_each_alone() -> None:
    # Jobs of three sizes, asked about in turns.
    made = [calibrated(seed, rows) for seed, rows in enumerate((5, 12, 12, 30, 5, 12))]
    cells = StepCells.join([asked for _, asked in made])
    which = np.repeat(np.arange(len(made)), [len(asked) for _, asked in made])
    order = np.random.default_rng(0).permutation(len(which))
    jobs = [calibration.weighed for calibration, _ in made]
    found = correct_weighed(jobs, cells.take(order), which[order])
    alone = CalibratedSteps.join([calibration.apply(asked) for calibration, asked in made])
    for name in ("log_sd", "learned", "seen"):
        expected = getattr(alone, name)[order]
        assert getattr(found, name) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    expected = alone.parts.step_time_s[order]
    assert found.parts.step_time_s == pytest.approx(expected, rel=1e-12)


def test_many_pairs_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    (one, asked), (other, more) = calibrated(1), calibrated(3)
    cells, which = StepCells.join([asked, more]), np.repeat([0, 1], [len(asked), len(more)])
    whole = correct([one.posterior, other.posterior], cells, which)
    # Seven rows of twelve pairs at a time.
    monkeypatch.setattr("perfmodel.placement.calibration.correcting.corrected._PAIRS_AT_ONCE", 84)
    parts = correct([one.posterior, other.posterior], cells, which)
    assert parts.log_sd == pytest.approx(whole.log_sd, rel=1e-9)
