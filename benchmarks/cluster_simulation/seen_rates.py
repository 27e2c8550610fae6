"""What a scheduler sees of a table of rates: some cells measured, others predicted, or nothing.

Predictions come the way that users get them: the exporter of Gavel's table over an estimator in
this process, told what is observed.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cluster_simulation.rates import BoolArray, Rates

from perfmodel.adapters.ask import Cell, JobForm, PlacementForm, SeenInMatrix
from perfmodel.adapters.gavel import ALONE, GavelJob, throughput_table
from perfmodel.adapters.gavel_jobs import gavel_jobs
from perfmodel.adapters.local import LocalAnswers
from perfmodel.adapters.spread import packed
from perfmodel.estimator import Estimator
from perfmodel.importers.jobs.gavel_throughputs import ACCELERATORS, FILES
from perfmodel.importers.public_tables import find_table

#: Knowledge that needs no prediction, and the least that does.
ORACLE, BLIND, NOTHING = "oracle", "blind", "nothing observed"
#: Accelerators of a host, as the exporter takes them.
_PER_HOST = 8


class ObservedAnswers(LocalAnswers):
    """An estimator as something that adapters ask, told observed steps of the jobs asked about.

    Parameters
    ----------
    observations : sequence of mapping
        Each with the position of its ``job`` in the question.
    """

    def __init__(self, estimator: Estimator, observations: Sequence[SeenInMatrix]) -> None:
        super().__init__(estimator)
        self._observations = observations

    def cells(
        self,
        jobs: Sequence[JobForm],
        placements: Sequence[PlacementForm],
        observations: Sequence[SeenInMatrix] = (),
    ) -> list[list[Cell | None]]:
        """Return cells as :meth:`.LocalAnswers.cells`."""
        return super().cells(jobs, placements, [*self._observations, *observations])


def measured_rates(data: Path) -> Rates:
    """Read Gavel's table of accelerators on one host; 0 where a job does not run."""
    file = find_table(data / "gavel", FILES)
    read = json.loads(file.read_text(encoding="utf-8"))
    table = {
        kind: {
            literal_eval(key): {
                ALONE if partner == ALONE else literal_eval(partner): rate
                for partner, rate in partners.items()
            }
            for key, partners in read[kind].items()
        }
        for kind in ACCELERATORS
    }
    keys = sorted({key for jobs in table.values() for key in jobs})
    found = Rates.of_table(table, keys, tuple(ACCELERATORS))
    return replace(found, alone=np.nan_to_num(found.alone))


Known = Callable[[Rates], BoolArray]


def _none(measured: Rates) -> BoolArray:
    return np.zeros(measured.alone.shape, dtype=np.bool_)


def _cells(*cells: tuple[str, int]) -> Known:
    """Know these kinds and accelerators of every job type that runs there."""

    def known(measured: Rates) -> BoolArray:
        found = _none(measured)
        for kind, accelerators in cells:
            found[measured.accelerators == accelerators, measured.kinds.index(kind)] = True
        return found

    return known


def _all_but(kind: str | None) -> Known:
    """Know every cell of all kinds but one."""

    def known(measured: Rates) -> BoolArray:
        found = ~_none(measured)
        if kind is not None:
            found[:, measured.kinds.index(kind)] = False
        return found

    return known


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What is measured before a trace starts; the rest is predicted.

    Parameters
    ----------
    known : callable
        From the measured table to its cells (keys x kinds) of jobs alone that are known.
    target : float or None
        Average completion time beside the oracle's to reach.
    """

    name: str
    known: Known
    target: float | None = None


PREDICTED = (
    Knowledge(name=NOTHING, known=_none),
    Knowledge(name="one cell", known=_cells(("v100", 1)), target=1.06),
    Knowledge(
        name="three placements", known=_cells(("v100", 1), ("k80", 1), ("v100", 4)), target=1.02
    ),
    Knowledge(name="all but V100", known=_all_but("v100"), target=1.02),
    Knowledge(name="all but K80", known=_all_but("k80"), target=1.02),
    Knowledge(name="all but pairs", known=_all_but(None), target=1.02),
)


def blind_rates(measured: Rates) -> Rates:
    """Return a table that knows nothing: one step/s for each accelerator, no pairs."""
    nothing = replace(
        measured,
        alone=np.full(measured.alone.shape, np.nan),
        beside=np.full(measured.beside.shape, np.nan),
    )
    return nothing.usable()


def predicted_rates(estimator: Estimator, measured: Rates, knowledge: Knowledge) -> Rates:
    """Return a table as a scheduler holds it that was told some measured cells.

    Pairs that were not measured are not offered: no trace can run them.
    """
    known = knowledge.known(measured) & (measured.alone > 0)
    labels = sorted({label for label, _ in measured.keys})
    sizes = {
        label: tuple(size for name, size in measured.keys if name == label) for label in labels
    }
    jobs = [replace(job, scale_factors=sizes[job.job_type]) for job in gavel_jobs(labels)]
    seen = [
        one for position, job in enumerate(jobs) for one in _seen(position, job, measured, known)
    ]
    table = throughput_table(
        ObservedAnswers(estimator, seen),
        jobs,
        dict(ACCELERATORS),
        per_host=_PER_HOST,
        unconsolidated=False,
    )
    predicted = Rates.of_table(table.rates, measured.keys, measured.kinds)
    told = predicted.with_measured(measured, known)
    return replace(told, beside=np.where(np.isnan(measured.beside), np.nan, told.beside)).usable()


def _seen(
    position: int, job: GavelJob, measured: Rates, known: BoolArray
) -> Iterator[SeenInMatrix]:
    """Yield the known cells of a job as a user would report them."""
    for row, kind in np.argwhere(known).tolist():
        label, size = measured.keys[row]
        if label == job.job_type:
            accelerator = ACCELERATORS[measured.kinds[kind]]
            yield {
                "job": position,
                "placement": packed(accelerator, size, per_host=_PER_HOST),
                "batch_size": job.job["batch_size"],
                # Every worker's steps are counted.
                "step_time_s": size / float(measured.alone[row, kind]),
            }
