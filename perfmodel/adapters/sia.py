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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from perfmodel.adapters.ask import Answers, JobForm
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
        if not (1 <= self.per_node <= 9 and self.nodes >= 1):
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


@dataclass(frozen=True, kw_only=True, slots=True)
class SiaStep:
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
    """Predicted steps of one application on one cluster.

    Parameters
    ----------
    steps : tuple of SiaStep
        Those that fit into memory.
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
) -> SiaTable:
    """Predict the steps of one application on one cluster, in one call.

    Parameters
    ----------
    placements : sequence of str or None
        Digits; None means those that Sia chooses from.

    Raises
    ------
    NoAnswerError
        The service answers nothing at all.
    InvalidInputError
        A placement that is no digit above zero for each node.
    """
    names = list(placements) if placements is not None else cluster.placements()
    forms = [_form(name, cluster) for name in names]
    sizes = [{**job, "batch_size": size} for size in local_batch_sizes]
    alone = packed(cluster.accelerator, 1)
    cells = answers.cells(sizes, [alone, *forms])
    found, left_out = [], []
    for name, column in zip(names, range(1, len(forms) + 1), strict=True):
        for size, row in zip(local_batch_sizes, cells, strict=True):
            single, cell = row[0], row[column]
            if single is None or cell is None:
                left_out.append(f"{name} {size}: no answer")
            elif cell.fits is False:
                left_out.append(f"{name} {size}: does not fit into memory")
            else:
                waits_s = max(0.0, cell.step_time_s - single.step_time_s)
                found.append(
                    SiaStep(
                        placement=name,
                        local_bsz=size,
                        step_time=cell.step_time_s,
                        sync_time=waits_s,
                    )
                )
    return SiaTable(steps=tuple(found), left_out=tuple(left_out))


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
