"""Measured numbers that schedulers hand over, checked."""

from __future__ import annotations

import math

from perfmodel.errors import InvalidInputError


def measured_number(value: object, what: str, *, or_zero: bool = False) -> float:
    """Return a measured number.

    Parameters
    ----------
    what : str
        For people: ``"the step time of 44 with 16"``.
    or_zero : bool
        Zero is one, too.

    Raises
    ------
    InvalidInputError
        No number, or none above zero.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and (value > 0 or (or_zero and value == 0)):  # type: ignore[arg-type, operator]
        return float(value)  # type: ignore[arg-type]
    least = "zero or above" if or_zero else "above zero"
    raise InvalidInputError(
        f"{what} must be a number {least}; got {value!r}. Leave out what was not measured."
    )
