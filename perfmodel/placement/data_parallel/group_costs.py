"""What sharing gradients costs a group of replicas, in plain numbers that no job changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.form_curves import FormCurve, form_curves
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.topology.world_group import WorldGroup, WorldLinks

Curves = tuple[FormCurve, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GroupCosts:
    """One group of replicas.

    Parameters
    ----------
    ranks : float
    excess : float
        By how many spreads the slowest of so many ranks lies above their mean.
    inside, between : float
        How many times slower collectives are inside a step, on the two levels.
    group : WorldGroup
    """

    ranks: float
    excess: float
    inside: float
    between: float
    group: WorldGroup

    @classmethod
    def of(cls, group: WorldGroup) -> Self:
        """Return what sharing gradients costs all ranks of a placement."""
        inside, between = _slowdowns(group.links)
        return cls(
            ranks=group.ranks,
            excess=math.sqrt(2 * math.log(max(group.ranks, 1.0))),
            inside=inside,
            between=between if group.hosts > 1 else 1.0,
            group=group,
        )

    def curves(self, collective: Collective) -> tuple[Curves, Curves | None]:
        """Return a collective on all ranks, and on those of the fullest host alone.

        The latter is None on one host, where both are the same.
        """
        group = self.group
        if group.hosts == 1:
            return _on_one_host(collective, group), None
        return form_curves(collective, group), _on_one_host(collective, group.fullest_host)


@lru_cache(maxsize=4_096)
def _on_one_host(collective: Collective, group: WorldGroup) -> Curves:
    # Remembered, unlike those between hosts, of which there are as many as there are placements.
    return form_curves(collective, group)


@lru_cache(maxsize=4_096)
def _slowdowns(links: WorldLinks) -> tuple[float, float]:
    """Return how many times slower each level is inside a step, several hosts taken for granted."""
    known, two = fitted_constants(), WorldGroup(2.0, 2.0, links).columns()
    return float(known.slowdown_inside(two)[0]), float(known.slowdown_between(two)[0])
