"""Fields of tidy tables of kernels: one measurement a row, plain columns of numbers and words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from perfmodel.devices.catalog import Catalog
from perfmodel.importers.public_tables import Made, Row


@cache
def accelerator_named(written: str) -> str:
    """Return the name that the catalogue has for a device, in whatever spelling."""
    return Catalog.default().canonical_name(written)


def word(row: Row, column: str, known: Mapping[str, Made]) -> Made:
    """Return what a word of a closed vocabulary stands for."""
    value = row[column]
    if value not in known:
        raise ValueError(f"{column} is {value!r}; understood are {', '.join(sorted(known))}")
    return known[value]


def joined(*parts: object) -> str:
    """Return the parts that say something, with a space between."""
    return " ".join(str(part) for part in parts if part)
