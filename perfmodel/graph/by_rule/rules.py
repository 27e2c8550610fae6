r"""Numbers of a graph that depend on its batch size and its sequence length.

Nearly every extent, and nearly every attribute that is a whole number, is linear in the batch size
B and at most quadratic in the sequence length S:

.. math:: v(B, S) = (c_0 + c_1 S + c_2 S^2) + B (c_3 + c_4 S + c_5 S^2)

A batch of images has B in its first extent, flattened tokens are B S, attention has S in two
extents of one tensor, or their product in one extent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

from perfmodel.graph.node import AttrValue

#: Values of the variables: a batch size, a sequence length, both or none.
Point: TypeAlias = tuple[int, ...]
#: Highest power of each variable.
Degrees: TypeAlias = tuple[int, ...]

#: Of a batch size and of a sequence length.
BATCH, SEQUENCE = 1, 2


@dataclass(frozen=True, slots=True)
class Rule:
    """A whole number by rule.

    Parameters
    ----------
    coefficients : tuple of int
        Of what :func:`terms` gives, in that order.
    is_float : bool
        The graph holds it as a float, such as the divisor of a mean.
    """

    coefficients: tuple[int, ...]
    is_float: bool = False

    def at(self, products: Point) -> int | float:
        """Return the number, given what :func:`terms` says of a point."""
        pairs = zip(self.coefficients, products, strict=True)
        value = sum(coefficient * product for coefficient, product in pairs)
        return float(value) if self.is_float else value


#: A value of which some parts vary: scalars stay, a rule is worked out, tuples are walked.
Template: TypeAlias = "AttrValue | Rule | tuple[Template, ...]"


def terms(point: Point, degrees: Degrees) -> Point:
    """Return what coefficients belong to: the products of powers of the variables.

    Examples
    --------
    >>> terms((8,), (BATCH,)), terms((8, 5), (BATCH, SEQUENCE)), terms((), ())
    ((1, 8), (1, 5, 25, 8, 40, 200), (1,))
    """
    powers = product(*(range(degree + 1) for degree in degrees))
    return tuple(
        prod(value**power for value, power in zip(point, chosen, strict=True)) for chosen in powers
    )


def evaluated(template: Template, products: Point) -> AttrValue:
    """Return a value with its rules worked out.

    Parameters
    ----------
    products : tuple of int
        As :func:`terms` gives them.
    """
    if isinstance(template, Rule):
        return template.at(products)
    if isinstance(template, tuple):
        return tuple([evaluated(part, products) for part in template])
    return template
