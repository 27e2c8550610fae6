"""Arrays of features, predictors, placements and training: their types, and tables of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
StrArray = npt.NDArray[np.str_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Columns:
    """Columns of equal length, or sets of them, by name; what else a table holds is of all rows."""

    def take(self, rows: Any) -> Self:
        """Return some of the rows, by whatever indexes a column: a mask, positions, a slice."""
        values = ((one.name, getattr(self, one.name)) for one in fields(self))
        return replace(self, **{name: _some(value, rows) for name, value in values})

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of at least one part after the other; all that they hold are columns."""
        columns = {one.name: [getattr(part, one.name) for part in parts] for one in fields(cls)}
        return cls(
            **{
                name: values[0].join(values)
                if isinstance(values[0], Columns)
                else np.concatenate([np.atleast_1d(value) for value in values])
                for name, values in columns.items()
            }
        )


def _some(value: Any, rows: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value[rows]
    if isinstance(value, Mapping):
        return MappingProxyType({name: _some(column, rows) for name, column in value.items()})
    return value.take(rows) if isinstance(value, Columns) else value
