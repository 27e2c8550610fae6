"""Measured numbers that schedulers hand over, checked."""

from __future__ import annotations

import math
from numbers import Real

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
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and (number > 0 or (or_zero and number == 0)):
            return number
    least = "zero or above" if or_zero else "above zero"
    raise InvalidInputError(
        f"{what} must be a number {least}; got {value!r}. Leave out what was not measured."
    )
