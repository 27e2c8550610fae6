"""What a scheduler sees of a table of rates: some cells measured, others predicted, or nothing.

Predictions come the way that users get them: from the exporter of Gavel's table, told what was
measured, over an estimator in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cluster_simulation.rates import BoolArray, Rates

from perfmodel.adapters.gavel import read_rates, throughput_table
from perfmodel.adapters.gavel_jobs import gavel_jobs
from perfmodel.adapters.local import LocalAnswers
from perfmodel.adapters.measured.gavel_rates import ALONE
from perfmodel.estimator import Estimator
from perfmodel.importers.jobs.gavel_throughputs import ACCELERATORS, FILES
from perfmodel.importers.public_tables import find_tables

#: Knowledge that needs no prediction, and the least that does.
ORACLE, BLIND, NOTHING = "oracle", "blind", "nothing observed"
#: What only a policy that pairs jobs can tell from the oracle.
ALL_BUT_PAIRS = "all but pairs"


def measured_rates(data: Path) -> Rates:
    """Read Gavel's table of accelerators on one host; 0 where a job does not run.

    Jobs on several accelerators have rate 0 beside any other, all of them: nobody tried.
    """
    table = read_rates(find_tables(data / "gavel", FILES)[0])
    keys = sorted({key for kind in ACCELERATORS for key in table[kind]})
    found = Rates.of_table(table, keys, tuple(ACCELERATORS))
    tried = (found.accelerators == 1)[:, None, None]
    return replace(
        found, alone=np.nan_to_num(found.alone), beside=np.where(tried, found.beside, np.nan)
    )


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
    Knowledge(name=ALL_BUT_PAIRS, known=_all_but(None), target=1.02),
)


def blind_rates(measured: Rates) -> Rates:
    """Return a table that knows nothing."""
    return replace(
        measured,
        alone=np.full(measured.alone.shape, np.nan),
        beside=np.full(measured.beside.shape, np.nan),
    )


def predicted_rates(estimator: Estimator, measured: Rates, knowledge: Knowledge) -> Rates:
    """Return a table that was told some measured cells; NaN where there is no answer.

    Pairs that were not measured are not offered: no trace can run them.
    """
    known = knowledge.known(measured)
    labels = sorted({label for label, _ in measured.keys})
    sizes = {
        label: tuple(size for name, size in measured.keys if name == label) for label in labels
    }
    jobs = [replace(job, scale_factors=sizes[job.job_type]) for job in gavel_jobs(labels)]
    table = throughput_table(
        LocalAnswers(estimator),
        jobs,
        dict(ACCELERATORS),
        unconsolidated=False,
        observed={
            kind: {
                key: {ALONE: float(measured.alone[row, column])}
                for row, key in enumerate(measured.keys)
                if known[row, column]
            }
            for column, kind in enumerate(measured.kinds)
        },
    )
    found = Rates.of_table(table.rates, measured.keys, measured.kinds)
    return replace(found, beside=np.where(np.isnan(measured.beside), np.nan, found.beside))
