"""Steps of schedulers' jobs as observed cells: each beside what is predicted without it.

Jobs of Sia and of Gavel are scripts: they load, log, wait, and run on old frameworks, other than
the steps that predictors learn from. Rows are those that an answer is made from: the same functions
weigh what a user observed. On these clusters accelerators of one host synchronise slowly, NVLink or
not; no answer knows that before it was observed.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.graph.job import split_label
from perfmodel.importers.published import PublishedPlacement
from perfmodel.importers.registry import read_format
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator


class Group(NamedTuple):
    """A job on a cluster."""

    job: str
    cluster: str


class Measured(NamedTuple):
    """Steps with the digits of their placements: ``"14"`` is one accelerator here, four there."""

    steps: ObservedSteps
    placements: npt.NDArray[np.str_]
    model: str = ""


#: Tables of such jobs.
TABLES = ("sia", "gavel")


def is_locked(name: str) -> bool:
    """Tell whether a job, or a device, belongs to the fifth that nothing is chosen or fitted by.

    Examples
    --------
    >>> is_locked("zoo/lstm-lm"), is_locked("zoo/resnet50-v1.5")
    (True, False)
    """
    return hashlib.sha256(name.encode()).digest()[0] % 5 == 0


def script_groups(
    data: Path, models: Path = Path("models"), *, tables: Sequence[str] = TABLES
) -> dict[Group, Measured]:
    """Read placements of jobs and predict each of them.

    Parameters
    ----------
    tables : sequence of str
        Of :data:`TABLES`.
    models : Path
        Folder of the trained models that predict single accelerators; analytical without any.
        None of them was trained on these tables.

    Returns
    -------
    dict
        Steps of every job on every cluster; jobs without a graph and pairs are left out.
    """
    # The estimator brings the trained models' libraries, which a fit on read tables does not need.
    from perfmodel.estimator import Estimator

    records: dict[Group, list[PublishedPlacement]] = defaultdict(list)
    for table in tables:
        for record in read_format(table, data).placements:
            if record.job is not None and not record.placement.shared_with:
                cluster = record.settings.get("cluster") or record.settings["worker"]
                group = Group(split_label(record.job_type)[0], cluster.partition("_")[0])
                records[group].append(record)
    estimator = Estimator.from_folder(models)
    return {group: _observed(group, rows, estimator) for group, rows in sorted(records.items())}


def predicting_version(models: Path = Path("models")) -> str:
    """Return which version of the model :func:`script_groups` predicts with."""
    from perfmodel.estimator import Estimator

    return Estimator.from_folder(models).model_version


def _observed(
    group: Group, records: Sequence[PublishedPlacement], estimator: Estimator
) -> Measured:
    from perfmodel.estimator.evidence.observed_rows import weighed_steps

    rows = []
    for record in records:
        assert record.job is not None
        seen = Observation(
            placement=record.placement,
            batch_size=record.batch_size,
            step_time_s=record.step_time_s,
            sync_time_s=record.sync_time_s,
        )
        job = replace(record.job, script=True)
        rows.append(weighed_steps(estimator.core, job, [seen], [""], group.job))
    return Measured(
        steps=ObservedSteps.join(rows),
        placements=np.array(
            [
                "".join(str(node.count) * node.repeat for node in record.placement.nodes)
                for record in records
            ]
        ),
        model=str(records[0].job and records[0].job.model),
    )
