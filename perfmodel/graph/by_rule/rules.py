r"""Numbers of a graph that depend on its batch size and its sequence length.

Nearly every extent, and nearly every attribute that is a whole number, is linear in each of the
two:

.. math:: v(B, S) = c_0 + c_1 B + c_2 S + c_3 B S

A batch of images has B in its first extent, flattened tokens are B S, attention has S in two
extents of one tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TypeAlias

from perfmodel.graph.node import AttrValue

#: A batch size, or a batch size and a sequence length.
Point: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A whole number that is linear in each variable.

    Parameters
    ----------
    coefficients : tuple of int
        Of the products that :func:`terms` gives, in their order.
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


def terms(point: Point) -> Point:
    """Return what coefficients belong to: the products of some of the variables.

    Examples
    --------
    >>> terms((8,)), terms((8, 512))
    ((1, 8), (1, 8, 512, 4096))
    """
    chosen = (some for size in range(len(point) + 1) for some in combinations(point, size))
    return tuple(prod(some) for some in chosen)


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
