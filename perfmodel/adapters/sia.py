"""Sia: the CSVs and profiles of its simulator, predicted.

``placements-<cluster>.csv`` holds ``placement,local_bsz,step_time,sync_time``: a placement is a
digit for each node (``44`` is two nodes with four each), times are in seconds, and ``sync_time``
is the part of the step that waits for gradients. It is answered as what the step takes beyond that
of one accelerator alone. ``scalability-<cluster>.csv`` holds the same by number of nodes and
replicas. ``validation-<bsz>.csv`` is about the statistics of a model; nothing predicts those.

:func:`profiles` returns what ``Job.seed_profiles`` fills in, the place where Sia takes predictions.

Reference: siasosp23/artifacts, ``sia-simulator``.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from perfmodel.adapters.ask import Answers, Cell, JobForm, SeenInMatrix, written_out
from perfmodel.adapters.measured.numbers import measured_number, stated_count
from perfmodel.adapters.spread import of_counts, packed
from perfmodel.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class SiaCluster:
    """Nodes of one kind.

    Parameters
    ----------
    per_node : int
        1 to 9: a placement has one digit for each node.
    """

    accelerator: str
    per_node: int
    nodes: int
    network: str | None = None

    def __post_init__(self) -> None:
        stated_count(self.nodes, "nodes")
        if not stated_count(self.per_node, "per_node") <= 9:
            raise InvalidInputError(
                "Sia writes a node as one digit: 1 to 9 accelerators of at least one node; got "
                f"{self.per_node} of {self.nodes}."
            )

    def placements(self) -> list[str]:
        """Return what Sia chooses from: powers of two on one node, then whole nodes.

        Examples
        --------
        >>> SiaCluster(accelerator="T4", per_node=4, nodes=3).placements()
        ['1', '2', '4', '44', '444']
        """
        powers = [2**k for k in range(4) if 2**k < self.per_node]
        return [
            *(str(count) for count in powers),
            *(str(self.per_node) * nodes for nodes in range(1, self.nodes + 1)),
        ]


class SiaStep(NamedTuple):
    """One row.

    Parameters
    ----------
    placement : str
        A digit for each node.
    local_bsz : int
        Samples of one replica.
    step_time, sync_time : float
        Seconds.
    """

    placement: str
    local_bsz: int
    step_time: float
    sync_time: float

    @property
    def num_nodes(self) -> int:
        """Nodes of the placement."""
        return len(self.placement)

    @property
    def num_replicas(self) -> int:
        """Accelerators of the placement."""
        return sum(map(int, self.placement))


@dataclass(frozen=True, kw_only=True)
class SiaTable:
    """Steps of one application on one cluster: measured ones as they are, predicted ones.

    Parameters
    ----------
    steps : tuple of SiaStep
        Those that were measured, or fit into memory.
    left_out : tuple of str
        Placement and local batch size of the others, with the reason.
    """

    steps: tuple[SiaStep, ...]
    left_out: tuple[str, ...] = field(default=())

    def placements_csv(self) -> str:
        """Return the text of ``placements-<cluster>.csv``."""
        names = ("placement", "local_bsz", "step_time", "sync_time")
        return _csv(names, self.steps)

    def scalability_csv(self) -> str:
        """Return the text of ``scalability-<cluster>.csv``: one row for each number of nodes."""
        names = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        return _csv(
            names, {(s.num_nodes, s.num_replicas, s.local_bsz): s for s in self.steps}.values()
        )

    def profiles(self) -> dict[tuple[int, int, int], tuple[float, float]]:
        """Return ``{(num_nodes, num_replicas, local_bsz): (step_time, sync_time)}``."""
        return {
            (s.num_nodes, s.num_replicas, s.local_bsz): (s.step_time, s.sync_time)
            for s in self.steps
        }


def steps(
    answers: Answers,
    job: JobForm,
    cluster: SiaCluster,
    *,
    local_batch_sizes: Sequence[int],
    placements: Sequence[str] | None = None,
    observed: Iterable[tuple[str, int, float, float]] = (),
) -> SiaTable:
    """Predict the steps of one application on one cluster, in one call.

    Parameters
    ----------
    placements : sequence of str or None
        Digits; None means those that Sia chooses from.
    observed : iterable of (str, int, float, float)
        Measured rows of the application on this cluster. All of them come back as they are, asked
        for or not; a cell may have been measured several times.

    Raises
    ------
    NoAnswerError
        The service answers nothing at all.
    InvalidInputError
        A placement that is no digit above zero for each node, or a measured row that cannot be.
    """
    names = list(placements) if placements is not None else cluster.placements()
    forms = [_form(name, cluster) for name in names]
    sizes = [written_out(job, batch_size=size) for size in local_batch_sizes]
    measured = [_measured(row) for row in observed]
    # What was measured counts for all batches of a job; one that is not asked for is told with any.
    rows = {size: row for row, size in enumerate(local_batch_sizes)}
    seen = [_observation(step, cluster, rows.get(step.local_bsz, 0)) for step in measured]
    cells = answers.cells(sizes, [packed(cluster.accelerator, 1), *forms], seen)
    found: dict[tuple[str, int], list[SiaStep]] = defaultdict(list)
    left_out = []
    for step in measured:
        found[step.placement, step.local_bsz].append(step)
    for name, column in zip(names, range(1, len(forms) + 1), strict=True):
        for size, row in zip(local_batch_sizes, cells, strict=True):
            if (name, size) in found:
                continue
            predicted = _predicted(name, size, row[0], row[column])
            if isinstance(predicted, str):
                left_out.append(f"{name} {size}: {predicted}")
            else:
                found[name, size].append(predicted)
    asked = [(name, size) for name in names for size in local_batch_sizes]
    ordered = [step for cell in dict.fromkeys((*asked, *found)) for step in found.get(cell, ())]
    return SiaTable(steps=tuple(ordered), left_out=tuple(left_out))


def _predicted(name: str, size: int, alone: Cell | None, cell: Cell | None) -> SiaStep | str:
    """Return a row, or why there is none."""
    if alone is None or cell is None:
        return "no answer"
    if cell.fits is False:
        return "does not fit into memory"
    waits_s = max(0.0, cell.step_time_s - alone.step_time_s)
    return SiaStep(name, size, cell.step_time_s, waits_s)


def read_steps(path: Path) -> list[SiaStep]:
    """Read ``placements-<cluster>.csv``, measured or exported.

    Raises
    ------
    InvalidInputError
        It is no such file.
    """
    try:
        # With the mark that spreadsheets put before what they write.
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            if rows.fieldnames is None:
                raise ValueError("it is empty")
            return [
                SiaStep(
                    row["placement"],
                    int(row["local_bsz"]),
                    float(row["step_time"]),
                    float(row["sync_time"]),
                )
                for row in rows
            ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{path} is no table of {','.join(SiaStep._fields)} as Sia writes it: {error!r}."
        ) from error


def _measured(row: tuple[str, int, float, float]) -> SiaStep:
    if len(row) != len(SiaStep._fields):
        raise InvalidInputError(
            f"A measured row of Sia is ({', '.join(SiaStep._fields)}); got {row!r}."
        )
    # Readers of CSV take digits for a number.
    placement, local_bsz = str(row[0]), row[1]
    cell = f"{placement} with {local_bsz}"
    step_s = measured_number(row[2], f"The step time of {cell}")
    sync_s = measured_number(row[3], f"The sync time of {cell}", or_zero=True)
    if sync_s > step_s:
        raise InvalidInputError(
            f"The sync time of {cell} is a part of its step; got {sync_s} of {step_s}."
        )
    return SiaStep(placement, local_bsz, step_s, sync_s)


def _observation(step: SiaStep, cluster: SiaCluster, row: int) -> SeenInMatrix:
    return {
        "job": row,
        "placement": _form(step.placement, cluster),
        "batch_size": step.local_bsz,
        "step_time_s": step.step_time,
        "sync_time_s": step.sync_time,
    }


def _form(name: str, cluster: SiaCluster) -> dict[str, object]:
    counts = [int(digit) for digit in name if digit.isascii() and digit.isdigit()]
    if (
        not counts
        or len(counts) != len(name)
        or not all(1 <= count <= cluster.per_node for count in counts)
    ):
        raise InvalidInputError(
            f"A placement of Sia is a digit from 1 to {cluster.per_node} for each node, such as "
            f"'44'; got {name!r}."
        )
    return of_counts(cluster.accelerator, counts, network=cluster.network)


def _csv(names: Sequence[str], rows: Iterable[SiaStep]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([getattr(row, name) for name in names] for row in rows)
    return text.getvalue()
