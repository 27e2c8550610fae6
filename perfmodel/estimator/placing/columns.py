"""Equal replicas on whole accelerators, on many placements at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.world_group import scaling_groups, world_columns
from perfmodel.placement.job_types.job_type_cells import log_speed
from perfmodel.placement.topology.networks import default_network
from perfmodel.placement.topology.topology import Network

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplicaColumns:
    """Placements of equal replicas on whole accelerators, as columns.

    Parameters
    ----------
    groups : CommGroups
        All accelerators of each.
    accelerators : sequence of tuple of AcceleratorSpec
        For each placement its kinds.
    counts : sequence of ndarray, shape (placements,)
        As many of each kind; empty where placements have unequally many kinds.
    hosts : ndarray, shape (placements,)
        As they are stated; those of ``groups`` may be joined by links.
    networks : sequence of Network or None
        Between the hosts of each.
    zero_stage : int
        What the replicas of all of them share out.
    placements : sequence of ResolvedPlacement
        What they are columns of; empty for growing counts, which need no placements.
    """

    groups: CommGroups
    accelerators: Sequence[tuple[AcceleratorSpec, ...]]
    counts: Sequence[FloatArray]
    hosts: FloatArray
    networks: Sequence[Network | None]
    zero_stage: int = 0
    placements: Sequence[ResolvedPlacement] = ()

    def __len__(self) -> int:
        return len(self.accelerators)

    @classmethod
    def of(cls, placements: Sequence[ResolvedPlacement]) -> Self:
        """Lay out placements that share out equally much among their replicas."""
        (zero_stage,) = {placement.fabric.plan.zero_stage for placement in placements}
        counts: list[FloatArray] = []
        if len({len(placement.counts) for placement in placements}) == 1:
            each = zip(*[placement.counts for placement in placements], strict=True)
            counts = [np.array(of_kind, dtype=np.float64) for of_kind in each]
        return cls(
            groups=world_columns([placement.fabric.world_group for placement in placements]),
            accelerators=[placement.accelerators for placement in placements],
            counts=counts,
            hosts=np.array([float(placement.placement.host_count) for placement in placements]),
            networks=[placement.fabric.network for placement in placements],
            zero_stage=zero_stage,
            placements=placements,
        )

    @classmethod
    def over_counts(
        cls,
        spec: AcceleratorSpec,
        counts: Sequence[int],
        *,
        per_host: int,
        network: Network | None = None,
        link: str | None = None,
        zero_stage: int = 0,
    ) -> Self:
        """Lay out growing numbers of one accelerator, hosts filled one by one.

        As :meth:`of` placements, without one for each: a curve may have thousands.

        Raises
        ------
        InvalidPlacementError
            A link that the accelerator has not.
        """
        groups = scaling_groups(spec, np.array(counts), per_host, network, link=link)
        between = network or default_network([spec])
        return cls(
            groups=groups,
            accelerators=[(spec,)] * len(counts),
            counts=[groups.ranks],
            # Links may join hosts to one, for what is communicated: they are counted as stated.
            hosts=np.ceil(groups.ranks / per_host),
            networks=[between if hosts > 1 else None for hosts in groups.hosts.tolist()],
            zero_stage=zero_stage,
        )

    def take(self, at: npt.NDArray[np.int64]) -> Self:
        """Return some of the placements, by their positions."""
        chosen = at.tolist()
        return replace(
            self,
            groups=self.groups.take(at),
            accelerators=[self.accelerators[i] for i in chosen],
            counts=[of_kind[at] for of_kind in self.counts],
            hosts=self.hosts[at],
            networks=[self.networks[i] for i in chosen],
            placements=[self.placements[i] for i in chosen if self.placements],
        )

    @cached_property
    def machine(self) -> list[str]:
        """Words that placements on the same accelerators, or parts of them, share."""
        return ["+".join([spec.name for spec in kinds]) for kinds in self.accelerators]

    @cached_property
    def log_speed(self) -> FloatArray:
        """Of the slowest accelerator of each."""
        return np.array([slowest(kinds) for kinds in self.accelerators])

    def facts(
        self, rows: Sequence[Mapping[str, T]], kind: int, of: Callable[[T], float], absent: float
    ) -> FloatArray:
        """Return facts of one kind of the placements, by the names of accelerators.

        Returns
        -------
        ndarray, shape (rows, placements)
            ``absent`` where nothing is known.
        """
        names, places = self._names[kind]
        known = [
            [absent if (one := row.get(n)) is None else of(one) for n in names] for row in rows
        ]
        return np.array(known, dtype=np.float64)[:, places]

    @cached_property
    def _names(self) -> list[tuple[list[str], npt.NDArray[np.intp]]]:
        """For each kind of the placements its names, and which of them each placement has."""
        found = []
        for of_kind in zip(*self.accelerators, strict=True):
            names = dict.fromkeys(spec.name for spec in of_kind)
            codes = {name: code for code, name in enumerate(names)}
            places = np.array([codes[spec.name] for spec in of_kind], dtype=np.intp)
            found.append((list(codes), places))
        return found


def slowest(accelerators: Sequence[AcceleratorSpec]) -> float:
    """Return the speed of the slowest accelerator, in logarithms."""
    return min(log_speed(spec) for spec in accelerators)
