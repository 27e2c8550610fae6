"""Arrays of features, predictors, placements and training: their types, and tables of columns.

A scheduler asks for one placement after the other. Arrays of one element take ten to a hundred
times as long as their numbers do, so that a law that both need is written once, over the functions
of ``numpy`` or of :class:`PlainNumbers`.
"""

from __future__ import annotations

import math
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
#: A column, or the plain number of one case.
Numbers = Any


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


class PlainNumbers:
    """Functions of one number, by the names that NumPy has for columns."""

    exp, log, log2, sqrt = math.exp, math.log, math.log2, math.sqrt
    minimum, maximum, any = min, max, bool

    @staticmethod
    def clip(numbers: Sequence[float], least: float, most: float) -> Sequence[float]:
        """Return numbers within bounds."""
        if least <= min(numbers) and max(numbers) <= most:
            return numbers
        return [min(max(one, least), most) for one in numbers]

    @staticmethod
    def where(condition: bool, one: float, other: float) -> float:
        """Return one of two numbers."""
        return one if condition else other

    @staticmethod
    def logaddexp(one: float, other: float) -> float:
        """Return the logarithm of a sum."""
        return max(one, other) + math.log1p(math.exp(-abs(one - other)))
