"""Laws that answer for columns with NumPy and for one case on plain numbers.

A scheduler asks for one placement after the other. Arrays of one element take ten to a hundred
times as long as their numbers do, so that a law that both need is written once, over the functions
of ``numpy`` or of :class:`PlainNumbers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

#: A column, or the plain number of one case.
Numbers = Any


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
