"""Judge job types: Gavel's table with most cells hidden, and Sia's steps as mere names.

Nested: where cells of Gavel are hidden at random, mean and variances come from Sia's table alone;
where a job type is new, they come from tables without any cell of its name. The prior of residuals
is fitted on Sia's table, and without the job where that is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from placement_accuracy import job_type_baselines as baselines
from placement_accuracy.job_type_answers import Priors, answers
from placement_accuracy.line import Line
from placement_accuracy.sia import predicted_groups, sia_priors

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.placement.job_types.completion import JobTypePrior, JobTypeTable
from perfmodel.placement.job_types.job_type_cells import JobTypeCells
from perfmodel.training.placement_fits.fit_job_types import calibrated, fit_prior, repeat_variance
from perfmodel.training.placement_rows.job_type_records import (
    MeasuredCells,
    gavel_cells,
    joined,
    sia_cells,
    thinned,
)

#: Of the fit of a prior of residuals.
_STEPS = 12
_HIDDEN = (0.9, 0.8, 0.7)
_KNOWN = (0, 1, 3, 10)
_PLACEMENTS = 3
_PROFILED = (0.1, 0.3)
_PER_DEVICE = 16
_PAIRS_PER_DEVICE = 25
#: Cells of other jobs of Sia's table that stand beside an app, and asked cells of it per draw.
_OTHERS_PER_DEVICE, _ASKED = 24, 300

_BESIDE = {
    "Gavel: completion": baselines.completed_rates,
    "Gavel: nearest reference": baselines.nearest_reference,
    "completion of logarithms": baselines.completed_logs,
    "effects of job and place": baselines.effects_alone,
}


@dataclass(frozen=True, kw_only=True)
class _Question:
    """Positions of known and of asked cells of a table, and what they were left out with."""

    known: IntArray
    asked: IntArray
    group: str


def evaluate(data: Path, *, fast: bool = False, models: Path = Path("models")) -> list[Line]:
    """Judge on every kind of question.

    Parameters
    ----------
    fast : bool
        One draw of what is known instead of several, and only a part of the questions.
    models : Path
        Folder of the trained models that predict what priors of residuals are fitted on.
    """
    seeds = range(1 if fast else 5)
    sia, gavel = sia_cells(data), gavel_cells(data)
    noise = repeat_variance(sia)
    few = thinned(sia, _PER_DEVICE, np.random.default_rng(0))
    lines = hidden_lines(data, seeds=seeds)
    together = gavel_cells(data, shared=True)
    priors = {
        name: Priors(_without(name, together, few, noise)) for name in _names(gavel, fast=fast)
    }
    lines += [_new_job(gavel, priors, count, seeds) for count in _KNOWN[: 2 if fast else 4]]
    lines += [_new_name(gavel, priors, count, seeds) for count in _KNOWN[: 2 if fast else 4]]
    lines += [_other_kind(gavel, priors)]
    lines += [_pairs(together, priors, share) for share in _PROFILED[: 1 if fast else 2]]
    residuals = sia_priors(predicted_groups(data, models), steps=0 if fast else _STEPS)
    apps = {
        name: Priors(_without_app(name, gavel, few, noise), residuals[name])
        for name in _names(sia, fast=fast)
    }
    lines += [_sia(sia, apps, count, seeds) for count in _KNOWN[: 2 if fast else 4]]
    return [*lines, _sia_placements(sia, apps, _PLACEMENTS, seeds)]


def _names(table: MeasuredCells, *, fast: bool) -> list[str]:
    names = [str(name) for name in np.unique(table.cells.job_type)]
    return names[:2] if fast else names


def _without(name: str, gavel: MeasuredCells, sia: MeasuredCells, noise: float) -> JobTypePrior:
    """Fit a prior on tables without a job type of Gavel, on either side of a pair."""
    rest = gavel.take((gavel.cells.job_type != name) & (gavel.cells.partner_type != name))
    shared = rest.cells.is_shared > 0
    rng = np.random.default_rng(0)
    pairs = thinned(rest.take(shared), _PAIRS_PER_DEVICE, rng)
    tables = [joined(rest.take(~shared), pairs), sia]
    return calibrated(fit_prior(tables, noise), tables, seeds=2)


def _without_app(name: str, gavel: MeasuredCells, sia: MeasuredCells, noise: float) -> JobTypePrior:
    tables = [gavel, sia.take(sia.cells.job_type != name)]
    return calibrated(fit_prior(tables, noise), tables, seeds=2)


def hidden_lines(
    data: Path, *, seeds: Sequence[int], shares: Sequence[float] = _HIDDEN
) -> list[Line]:
    """Judge Gavel's table with most of its cells hidden, by what Sia's table says of jobs."""
    sia = sia_cells(data)
    few = thinned(sia, _PER_DEVICE, np.random.default_rng(0))
    prior = calibrated(fit_prior([few], repeat_variance(sia)), [few], seeds=2)
    gavel = gavel_cells(data)
    return [_hidden(gavel, prior, share, seeds) for share in shares]


def _hidden(table: MeasuredCells, prior: JobTypePrior, share: float, seeds: Sequence[int]) -> Line:
    questions = [_at_random(table, share, seed) for seed in seeds]
    return _line(
        f"hidden-{share:.0%}".rstrip("%"),
        f"Gavel's table with {share:.0%} of the cells of every job hidden",
        table,
        [(question, Priors(prior)) for question in questions],
        note="At least one cell of every job is known; mean and variances come from Sia's table.",
    )


def _at_random(table: MeasuredCells, share: float, seed: int) -> _Question:
    rng = np.random.default_rng(seed)
    known = [
        rng.choice(rows, max(1, round((1 - share) * len(rows))), replace=False)
        for rows in _jobs(table)
    ]
    seen = np.sort(np.concatenate(known))
    return _Question(known=seen, asked=_others(table, seen), group=f"draw {seed}")


def _new_job(
    table: MeasuredCells, priors: dict[str, Priors], count: int, seeds: Sequence[int]
) -> Line:
    def questions() -> Iterator[tuple[_Question, Priors]]:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            for rows in _jobs(table):
                name = str(table.cells.job_type[rows[0]])
                if name in priors and len(rows) > count:
                    own = rng.permutation(rows)
                    known = np.setdiff1d(np.arange(len(table.log_s)), own[count:])
                    yield _Question(known=known, asked=own[count:], group=name), priors[name]

    return _line(
        f"new-job-{count}",
        f"A job of Gavel's table with {count} known cells; all other jobs are known, those of its "
        "name at other batch sizes too",
        table,
        list(questions()),
        note="Mean and variances come from tables without the name.",
    )


def _new_name(
    table: MeasuredCells, priors: dict[str, Priors], count: int, seeds: Sequence[int]
) -> Line:
    def questions() -> Iterator[tuple[_Question, Priors]]:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            for name, prior in priors.items():
                own = rng.permutation(np.flatnonzero(table.cells.job_type == name))
                if len(own) > count:
                    known = np.setdiff1d(np.arange(len(table.log_s)), own[count:])
                    yield _Question(known=known, asked=own[count:], group=name), prior

    return _line(
        f"new-name-{count}",
        f"A job type of Gavel's table with {count} known cells over all its batch sizes; other "
        "job types are known",
        table,
        list(questions()),
        note="Mean and variances come from tables without the name.",
    )


def _other_kind(table: MeasuredCells, priors: dict[str, Priors]) -> Line:
    questions = []
    for name, prior in priors.items():
        for kind in np.unique(table.cells.accelerator):
            asked = np.flatnonzero(
                (table.cells.job_type == name) & (table.cells.accelerator == kind)
            )
            known = _others(table, asked)
            questions.append((_Question(known=known, asked=asked, group=str(kind)), prior))
    return _line(
        "other-kind",
        "Cells of a job type of Gavel's table on a GPU kind it never ran on; those on the other "
        "kind and other job types are known",
        table,
        questions,
        note="Mean and variances come from tables without the name.",
    )


def _sia(table: MeasuredCells, priors: dict[str, Priors], count: int, seeds: Sequence[int]) -> Line:
    def questions() -> Iterator[tuple[_Question, Priors]]:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            for name, prior in priors.items():
                for kind in np.unique(table.cells.accelerator):
                    own = _cluster(table, name, str(kind), rng)
                    beside = _beside(table, name, rng)
                    asked = own[count:]
                    known = np.r_[beside, own[:count]]
                    yield _Question(known=known, asked=asked, group=str(kind)), prior

    return _line(
        f"sia-{count}",
        f"Steps of a Sia job as a mere name, {count} cells known on one cluster and none on "
        "others; other jobs are known",
        table,
        list(questions()),
        beside={},
        note="Mean and variances come from Gavel's table and from Sia's without the job.",
    )


def _sia_placements(
    table: MeasuredCells, priors: dict[str, Priors], count: int, seeds: Sequence[int]
) -> Line:
    """Judge mere names of which all batch sizes of some placements were observed."""

    def questions() -> Iterator[tuple[_Question, Priors]]:
        assert table.observations is not None
        places = np.array([repr(one.placement) for one in table.observations])
        for seed in seeds:
            rng = np.random.default_rng(seed)
            for name, prior in priors.items():
                for kind in np.unique(table.cells.accelerator):
                    own = np.flatnonzero(
                        (table.cells.job_type == name) & (table.cells.accelerator == kind)
                    )
                    chosen = rng.choice(np.unique(places[own]), count, replace=False)
                    seen = np.isin(places[own], chosen)
                    asked = rng.permutation(own[~seen])[:_ASKED]
                    known = np.r_[_beside(table, name, rng), own[seen]]
                    yield _Question(known=known, asked=asked, group=str(kind)), prior

    return _line(
        f"sia-placements-{count}",
        f"Steps of a Sia job as a mere name, {count} placements known on one cluster and none on "
        "others; other jobs are known",
        table,
        list(questions()),
        beside={},
        note="Mean and variances come from tables without the job, as does the prior of residuals.",
    )


def _cluster(table: MeasuredCells, name: str, kind: str, rng: np.random.Generator) -> IntArray:
    chosen = (table.cells.job_type == name) & (table.cells.accelerator == kind)
    return rng.permutation(np.flatnonzero(chosen))[: _ASKED + max(_KNOWN)]


def _beside(table: MeasuredCells, name: str, rng: np.random.Generator) -> IntArray:
    rows = np.flatnonzero(table.cells.job_type != name)
    marked = replace(table.take(rows), log_s=rows.astype(np.float64))
    return thinned(marked, _OTHERS_PER_DEVICE, rng).log_s.astype(np.int64)


def _pairs(table: MeasuredCells, priors: dict[str, Priors], share: float) -> Line:
    """Judge slowdowns beside another job, Gavel's own question."""
    # Only jobs on one accelerator were run beside others.
    table = table.take(table.cells.count == 1)
    rng = np.random.default_rng(0)
    questions = []
    for rows in _jobs(table):
        name = str(table.cells.job_type[rows[0]])
        shared = rows[table.cells.is_shared[rows] > 0]
        if name not in priors or not len(shared):
            continue
        profiled = rng.random(len(shared)) < share
        mirrored = _mirrors(table, rows)
        known = np.setdiff1d(_others(table, shared[~profiled]), mirrored)
        question = _Question(known=known, asked=shared[~profiled], group=name)
        questions.append((question, priors[name]))
    return _line(
        f"pairs-{share:.0%}".rstrip("%"),
        f"A new job of Gavel's table beside every other, {share:.0%} of its pairs profiled, its "
        "times alone known on both GPU kinds",
        table,
        questions,
        beside={"Gavel: nearest reference": _pair_reference},
        note="Gavel's estimator takes times alone as known; other jobs beside the new one are "
        "hidden too.",
    )


def _mirrors(table: MeasuredCells, rows: IntArray) -> IntArray:
    """Return the cells of other jobs beside the one of these rows."""
    cells, first = table.cells, rows[0]
    return np.flatnonzero(
        (cells.partner_type == cells.job_type[first])
        & (cells.partner_batch == cells.batch_size[first])
    )


def _pair_reference(table: MeasuredCells, question: _Question) -> FloatArray:
    """Answer as Gavel's estimator does: shares of the time alone, completed and matched."""
    cells = table.cells
    jobs = np.array([f"{n}|{b:g}" for n, b in zip(cells.job_type, cells.batch_size, strict=True)])
    beside = [
        f"{a}|{n}|{b:g}"
        for a, n, b in zip(cells.accelerator, cells.partner_type, cells.partner_batch, strict=True)
    ]
    names, row = np.unique(jobs, return_inverse=True)
    _, column = np.unique(beside, return_inverse=True)
    known = question.known
    alone = known[cells.is_shared[known] == 0]
    rate_alone = {
        (jobs[at], cells.accelerator[at]): np.exp(-table.log_s[at]) for at in alone.tolist()
    }
    time_alone = np.array(
        [
            1 / rate_alone.get((job, kind), np.nan)
            for job, kind in zip(jobs, cells.accelerator, strict=True)
        ]
    )
    shares = np.full((len(names), int(column.max()) + 1), np.nan)
    seen = known[cells.is_shared[known] > 0]
    shares[row[seen], column[seen]] = time_alone[seen] / np.exp(table.log_s[seen])
    mask = np.isfinite(shares)
    filled = baselines.factorised(baselines.Matrix(values=np.nan_to_num(shares), known=mask))
    filled = np.where(mask, shares, np.clip(filled, 0.05, 1.0))
    mine = int(row[question.asked[0]])
    reference = filled[baselines.nearest_row(filled, mine)]
    return np.asarray(time_alone[question.asked] / reference[column[question.asked]])


def _jobs(table: MeasuredCells) -> list[IntArray]:
    cells = table.cells
    keys = np.array([f"{n}|{b:g}" for n, b in zip(cells.job_type, cells.batch_size, strict=True)])
    return [np.flatnonzero(keys == key) for key in np.unique(keys)]


def _others(table: MeasuredCells, rows: IntArray) -> IntArray:
    return np.setdiff1d(np.arange(len(table.log_s)), rows)


_Beside = Callable[[MeasuredCells, _Question], FloatArray]


def _line(
    name: str,
    title: str,
    table: MeasuredCells,
    questions: Sequence[tuple[_Question, Priors]],
    *,
    beside: dict[str, _Beside] | None = None,
    note: str = "",
) -> Line:
    rivals = beside if beside is not None else {key: _by_matrix(f) for key, f in _BESIDE.items()}
    asked = [question.asked for question, _ in questions]
    found, alone = [], []
    for question, priors in questions:
        known, hidden = table.take(question.known), table.take(question.asked)
        found.append(answers(known, hidden, priors))
        alone.append(
            JobTypeTable(known.cells, known.step_time_s, priors.cells)
            .complete(hidden.cells)
            .median_s
        )
    rows = np.concatenate(asked)
    others = {
        key: np.concatenate([rival(table, question) for question, _ in questions])
        for key, rival in rivals.items()
    }
    measured = table.step_time_s[rows]
    predicted = np.concatenate([one.median_s for one in found])
    others = {"completion of cells alone": np.concatenate(alone), **others}
    note = " ".join([note, *_on_their_rows(others, predicted, measured)]).strip()
    return Line(
        name=name,
        title=title,
        measured=measured,
        predicted=predicted,
        groups=[question.group for question, _ in questions for _ in question.asked],
        jobs=_job_names(table.cells.take(rows)),
        baselines=others,
        target=_target(others, measured),
        low=np.concatenate([one.low_s for one in found]),
        high=np.concatenate([one.high_s for one in found]),
        note=note,
    )


def _on_their_rows(
    others: dict[str, FloatArray], predicted: FloatArray, measured: FloatArray
) -> list[str]:
    """Say how well the same rows are answered that a method answers which does not answer all."""
    said = []
    for name, found in others.items():
        known = np.isfinite(found)
        if known.any() and not known.all():
            ours, theirs = (
                float(np.mean(np.abs(one[known] / measured[known] - 1)))
                for one in (predicted, found)
            )
            said.append(
                f"On the {int(known.sum())} rows that {name} answers: ours {ours:.1%}, it "
                f"{theirs:.1%}."
            )
    return said


def _target(others: dict[str, FloatArray], measured: FloatArray) -> float | None:
    """Return half of the smallest error of Gavel's own ways, where they answer."""
    errors = [
        float(np.nanmean(np.abs(found / measured - 1)))
        for name, found in others.items()
        if name.startswith("Gavel") and np.isfinite(found).any()
    ]
    return min(errors) / 2 if errors else None


def _by_matrix(method: Callable[[baselines.Matrix], FloatArray]) -> _Beside:
    def answer(table: MeasuredCells, question: _Question) -> FloatArray:
        cells = table.cells
        jobs = [f"{n}|{b:g}" for n, b in zip(cells.job_type, cells.batch_size, strict=True)]
        places = [
            f"{a}|{c:g}|{h:g}"
            for a, c, h in zip(cells.accelerator, cells.count, cells.hosts, strict=True)
        ]
        names, row = np.unique(jobs, return_inverse=True)
        kinds, column = np.unique(places, return_inverse=True)
        # The table states steps of all workers, which is how the estimator sees rates.
        rate = cells.count / table.step_time_s
        values, known = np.zeros((len(names), len(kinds))), np.zeros((len(names), len(kinds)), bool)
        seen = question.known
        values[row[seen], column[seen]] = rate[seen]
        known[row[seen], column[seen]] = True
        rates = method(baselines.Matrix(values=values, known=known))
        asked = question.asked
        return np.asarray(cells.count[asked] / rates[row[asked], column[asked]])

    return answer


def _job_names(cells: JobTypeCells) -> list[str]:
    return [
        f"{name}, batch {batch:g}"
        for name, batch in zip(cells.job_type, cells.batch_size, strict=True)
    ]
