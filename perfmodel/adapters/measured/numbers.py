"""Numbers that schedulers hand over, checked."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TypeGuard

from perfmodel.errors import InvalidInputError


def stated_count(value: object, what: str) -> int:
    """Return a whole number above zero.

    Parameters
    ----------
    what : str
        For people: ``"num_nodes"``.

    Raises
    ------
    InvalidInputError
        It is none.

    Examples
    --------
    >>> stated_count(2, "num_nodes")
    2
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) > 0:
        return int(value)
    raise InvalidInputError(f"{what} must be a whole number above zero; got {value!r}.")


def stated_number(value: object, what: str) -> float:
    """Return a finite number above zero; as :func:`stated_count`."""
    if _is_finite(value) and value > 0:
        return float(value)
    raise InvalidInputError(f"{what} must be a number above zero; got {value!r}.")


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
    if _is_finite(value) and (value > 0 or (or_zero and value == 0)):
        return float(value)
    least = "zero or above" if or_zero else "above zero"
    raise InvalidInputError(
        f"{what} must be a number {least}; got {value!r}. Leave out what was not measured."
    )


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
