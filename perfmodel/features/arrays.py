"""Arrays of features, predictors and training: their types, and rows of tables of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
StrArray = npt.NDArray[np.str_]

Table = TypeVar("Table", bound="DataclassInstance")


def take_rows(table: Table, rows: IntArray | BoolArray) -> Table:
    """Return some rows of a dataclass of columns; what is no column stays as it is."""
    some = {one.name: _some(getattr(table, one.name), rows) for one in fields(table)}
    return replace(table, **some)


def _some(value: Any, rows: IntArray | BoolArray) -> Any:
    if isinstance(value, np.ndarray):
        return value[rows]
    if isinstance(value, Mapping):
        return MappingProxyType({name: _some(column, rows) for name, column in value.items()})
    if hasattr(value, "take"):
        return value.take(rows)
    if is_dataclass(value) and not isinstance(value, type):
        return take_rows(value, rows)
    return value
