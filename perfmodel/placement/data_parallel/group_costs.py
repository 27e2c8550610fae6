"""What sharing gradients costs a group of replicas, in plain numbers that no job changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.form_curves import FormCurve, form_curves
from perfmodel.placement.data_parallel.bucket_times import fullest_host
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.topology.groups import CommGroups

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
    table : CostTable
        Whose row this is.
    row : int
    """

    ranks: float
    excess: float
    inside: float
    between: float
    table: CostTable
    row: int

    def curves(self, collective: Collective) -> tuple[Curves, Curves | None]:
        """Return a collective on all ranks, and on those of the fullest host alone.

        The latter is None on one host, where both are the same.
        """
        return self.table.curves(collective)[self.row]


class CostTable:
    """Costs of several groups, worked out together: columns take no longer than one row.

    Parameters
    ----------
    groups : CommGroups
        Flat columns.
    """

    def __init__(self, groups: CommGroups) -> None:
        constants = fitted_constants()
        self._groups = groups
        self._curves: dict[Collective, list[tuple[Curves, Curves | None]]] = {}
        self._ranks = groups.ranks.tolist()
        self._inside = constants.slowdown_inside(groups).tolist()
        self._between = constants.slowdown_between(groups).tolist()
        self._excess = np.sqrt(2 * np.log(np.maximum(groups.ranks, 1.0))).tolist()

    def costs(self, row: int) -> GroupCosts:
        """Return one group."""
        return GroupCosts(
            ranks=self._ranks[row],
            excess=self._excess[row],
            inside=self._inside[row],
            between=self._between[row],
            table=self,
            row=row,
        )

    def curves(self, collective: Collective) -> list[tuple[Curves, Curves | None]]:
        """Return a collective on every group, as :meth:`GroupCosts.curves`."""
        known = self._curves.get(collective)
        if known is None:
            known = self._curves[collective] = self._worked_out(collective)
        return known

    def _worked_out(self, collective: Collective) -> list[tuple[Curves, Curves | None]]:
        whole = form_curves(collective, self._groups)
        spread = (self._groups.hosts > 1).tolist()
        if not any(spread):
            return [(curves, None) for curves in whole]
        within = form_curves(collective, fullest_host(self._groups))
        return [
            (all_ranks, one_host if several else None)
            for all_ranks, one_host, several in zip(whole, within, spread, strict=True)
        ]
