"""A table that several networks are asked about: what they have in common is laid out once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perfmodel.features.arrays import IntArray
from perfmodel.features.steps.step_table import StepTable
from perfmodel.predictors.step_models.node_entries import Entries, TableArrays, batches

#: Under which name it lies with its table.
_KEPT = "_asked_table"
#: Steps that are answered at once; their entries take some 10 MB.
ANSWERED_AT_ONCE = 256


class AskedTable:
    """Lays a table out for networks.

    Entries of one batch are kept for the next network: that is what a question asks about. More
    steps have more entries than memory should hold, and laying them out takes little beside what
    a network does with them.
    """

    def __init__(self, table: StepTable) -> None:
        self._table = table
        self._arrays = TableArrays.of(table)
        self._single: dict[bytes, Entries] = {}

    @classmethod
    def of(cls, table: StepTable) -> AskedTable:
        """Return a table laid out; one of few steps is kept with it, for the next network."""
        kept = vars(table).get(_KEPT)
        if isinstance(kept, AskedTable):
            return kept
        found = cls(table)
        if len(table.devices) <= ANSWERED_AT_ONCE:
            vars(table)[_KEPT] = found
        return found

    def batches(self, steps: IntArray) -> Iterator[Entries]:
        """Return some steps in batches, laid out."""
        key = steps.tobytes()
        known = self._single.get(key)
        if known is not None:
            yield known
            return
        order = np.arange(len(self._table.sketches))
        found = batches(self._table.sketch_of, steps, ANSWERED_AT_ONCE, order)
        for batch in found:
            entries = Entries.of(self._arrays, batch)
            if len(found) == 1:
                self._single[key] = entries
            yield entries
