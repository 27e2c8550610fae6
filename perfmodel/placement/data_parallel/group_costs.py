"""What sharing gradients costs a group of replicas, in plain numbers that no job changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.form_curves import fastest_s, form_curves
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks


class GroupCosts(NamedTuple):
    """One group of replicas.

    Parameters
    ----------
    excess : float
        By how many spreads the slowest of so many ranks lies above their mean.
    inside, between : float
        How many times slower collectives are inside a step, on the two levels.
    one_host : WorldGroup
        The ranks of the fullest host.
    """

    group: WorldGroup
    excess: float
    inside: float
    between: float
    one_host: WorldGroup

    @classmethod
    def of(cls, group: WorldGroup) -> GroupCosts:
        """Return what sharing gradients costs all ranks of a placement."""
        inside, between, one_host = _of_links(group.links)
        excess = math.sqrt(2 * math.log(max(group.ranks, 1.0)))
        return cls(group, excess, inside, between if group.hosts > 1 else 1.0, one_host)

    def times_s(
        self, collective: Collective, sizes_bytes: tuple[float, ...]
    ) -> tuple[Sequence[float], Sequence[float]]:
        """Return a collective by itself, on all ranks and on those of the fullest host alone."""
        one_host = _on_one_host_s(collective, self.one_host, sizes_bytes)
        if self.group.hosts == 1:
            return one_host, one_host
        return fastest_s(form_curves(collective, self.group), sizes_bytes), one_host


@lru_cache(maxsize=16_384)
def _on_one_host_s(
    collective: Collective, group: WorldGroup, sizes_bytes: tuple[float, ...]
) -> tuple[float, ...]:
    # Remembered, unlike those between hosts, of which there are as many as there are placements.
    return tuple(fastest_s(form_curves(collective, group), sizes_bytes))


@lru_cache(maxsize=4_096)
def _of_links(links: WorldLinks) -> tuple[float, float, WorldGroup]:
    """Return how many times slower each level is inside a step, and the fullest host."""
    known, two = fitted_constants(), WorldGroup(2.0, 2.0, links)
    columns = two.columns()
    inside, between = known.slowdown_inside(columns), known.slowdown_between(columns)
    return float(inside[0]), float(between[0]), two.fullest_host
