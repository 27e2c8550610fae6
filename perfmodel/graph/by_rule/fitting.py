"""Find the rules of a program by capturing it at a few batch sizes and sequence lengths.

As many captures as a rule has coefficients give the rules, and all others check them. Where a
number does not follow them, or the structure differs, there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import orjson

from perfmodel.graph.by_rule.ruled_graph import CallKind, RuledGraph, TensorKind
from perfmodel.graph.by_rule.rules import Degrees, Point, Rule, Template, terms
from perfmodel.graph.ir import AttrValue, Graph, Node, Tensor


class NoRuleError(Exception):
    """The captures follow no rule; never leaves this module."""


def rules_through(captured: Mapping[Point, Graph], degrees: Degrees) -> RuledGraph | None:
    """Return the rules of some captures; None where they follow none.

    Parameters
    ----------
    captured : mapping of tuple to Graph
        By values of the variables: as many as rules have coefficients, which are solved for, and
        more, which check them.
    degrees : tuple of int
        Of the variables.

    Examples
    --------
    >>> from perfmodel.types import Role
    >>> def graph(size: int) -> Graph:
    ...     tensor = Tensor(shape=(size, 3), dtype="float32", role=Role.INPUT, storage=0)
    ...     return Graph(nodes=(), tensors=(tensor,))
    >>> rules = rules_through({(size,): graph(size) for size in (2, 3, 8)}, (1,))
    >>> rules.at(64).tensors[0].shape
    (64, 3)
    """
    try:
        return _Fit(tuple(captured), degrees).graph(list(captured.values()))
    except NoRuleError:
        return None


class _Fit:
    """Rules through the numbers that a few captures have in one place."""

    def __init__(self, points: Sequence[Point], degrees: Degrees) -> None:
        self._degrees = degrees
        self._products = [terms(point, degrees) for point in points]
        self._inverse = _inverted([list(row) for row in self._products[: len(self._products[0])]])
        self._steps = [terms(one, degrees) for one in _neighbours(points)]
        self._known: dict[tuple[int, ...], int | Rule] = {}

    def graph(self, graphs: Sequence[Graph]) -> RuledGraph:
        first = graphs[0]
        _check_structure(graphs)
        tensor_kinds, tensors = self._tensor_kinds(graphs)
        call_kinds, calls = self._call_kinds(graphs)
        return RuledGraph.of(
            first,
            degrees=self._degrees,
            tensor_kinds=tensor_kinds,
            call_kinds=call_kinds,
            tensors=tensors,
            calls=calls,
        )

    def _tensor_kinds(self, graphs: Sequence[Graph]) -> tuple[list[TensorKind], list[int]]:
        numbers: dict[Any, int] = {}
        kinds: list[TensorKind] = []
        of_tensor = []
        for alike in zip(*(graph.tensors for graph in graphs), strict=True):
            one = alike[0]
            key = (one.dtype, one.role, *(tensor.shape for tensor in alike))
            number = numbers.setdefault(key, len(kinds))
            if number == len(kinds):
                kinds.append(TensorKind(self._shape(alike), one.dtype, one.role))
            of_tensor.append(number)
        return kinds, of_tensor

    def _call_kinds(self, graphs: Sequence[Graph]) -> tuple[list[CallKind], list[int]]:
        numbers: dict[Any, int] = {}
        kinds: list[CallKind] = []
        of_node = []
        for alike in zip(*(graph.nodes for graph in graphs), strict=True):
            one = alike[0]
            key = (one.op, one.phase, *(_exactly(node.attrs) for node in alike))
            number = numbers.setdefault(key, len(kinds))
            if number == len(kinds):
                kinds.append(CallKind(one.op, one.phase, self._attrs(alike)))
            of_node.append(number)
        return kinds, of_node

    def _shape(self, alike: Sequence[Tensor]) -> tuple[int | Rule, ...]:
        extents = [self._number(values) for values in zip(*(t.shape for t in alike), strict=True)]
        if any(isinstance(extent, Rule) and self._shrinks(extent) for extent in extents):
            raise NoRuleError  # an extent that shrinks cannot go on for ever
        return tuple(extents)

    def _attrs(self, alike: Sequence[Node]) -> dict[str, Template]:
        names = alike[0].attrs
        return {name: self._value([node.attrs[name] for node in alike]) for name in names}

    def _value(self, values: Sequence[AttrValue]) -> Template:
        first = values[0]
        if all(_exactly(value) == _exactly(first) for value in values):
            return first
        if all(isinstance(value, tuple) for value in values):
            rows = [value for value in values if isinstance(value, tuple)]
            if len({len(row) for row in rows}) != 1:
                raise NoRuleError
            return tuple(self._value(column) for column in zip(*rows, strict=True))
        whole = tuple(value for value in values if type(value) is int)
        if len(whole) == len(values):
            return self._number(whole)
        floats = tuple(int(v) for v in values if isinstance(v, float) and v.is_integer())
        if len(floats) != len(values):
            raise NoRuleError
        found = self._number(floats)
        assert isinstance(found, Rule)
        return Rule(found.coefficients, is_float=True)

    def _number(self, values: tuple[int, ...]) -> int | Rule:
        found = self._known.get(values)
        if found is None:
            found = self._known[values] = self._solved(values)
        return found

    def _solved(self, values: tuple[int, ...]) -> int | Rule:
        if len(set(values)) == 1:
            return values[0]
        exact = [_dot(row, values) for row in self._inverse]
        if any(coefficient.denominator != 1 for coefficient in exact):
            raise NoRuleError
        rule = Rule(tuple(int(coefficient) for coefficient in exact))
        if any(rule.at(p) != v for p, v in zip(self._products, values, strict=True)):
            raise NoRuleError
        return rule

    def _shrinks(self, rule: Rule) -> bool:
        """Tell whether a number is less where a variable is more."""
        least = rule.at(self._steps[0])
        return any(rule.at(larger) < least for larger in self._steps[1:])


def _neighbours(points: Sequence[Point]) -> list[Point]:
    """Return the least point, and those that are one more in one variable."""
    least = tuple(min(values) for values in zip(*points, strict=True))
    count = len(least)
    return [least] + [
        tuple(value + (place == moved) for place, value in enumerate(least))
        for moved in range(count)
    ]


def _dot(row: Sequence[Fraction], values: Sequence[int]) -> Fraction:
    # The values that check a rule come after those that it is solved for.
    return sum((a * b for a, b in zip(row, values, strict=False)), Fraction(0))


def _inverted(matrix: list[list[int]]) -> list[list[Fraction]]:
    """Return the exact inverse of a small matrix, by Gauss and Jordan."""
    size = len(matrix)
    rows = [
        [Fraction(value) for value in row] + [Fraction(int(i == j)) for j in range(size)]
        for i, row in enumerate(matrix)
    ]
    for column in range(size):
        pivot = next((r for r in range(column, size) if rows[r][column]), None)
        if pivot is None:
            raise ValueError("The captures do not tell the variables apart.")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = rows[column][column]
        rows[column] = [value / scale for value in rows[column]]
        for other in range(size):
            factor = rows[other][column]
            if other != column and factor:
                pairs = zip(rows[other], rows[column], strict=True)
                rows[other] = [a - factor * b for a, b in pairs]
    return [row[size:] for row in rows]


def _check_structure(graphs: Sequence[Graph]) -> None:
    first = graphs[0]
    for other in graphs[1:]:
        if len(other.nodes) != len(first.nodes) or len(other.tensors) != len(first.tensors):
            raise NoRuleError
        if any(_kind(a) != _kind(b) for a, b in zip(first.tensors, other.tensors, strict=True)):
            raise NoRuleError
        if any(_place(a) != _place(b) for a, b in zip(first.nodes, other.nodes, strict=True)):
            raise NoRuleError
        if first.source != other.source:
            raise NoRuleError


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return (len(tensor.shape), tensor.dtype, tensor.role, tensor.storage)


def _place(node: Node) -> tuple[object, ...]:
    return (node.op, node.phase, node.inputs, node.outputs, node.name, node.attrs.keys())


def _exactly(value: Any) -> bytes | str:
    """Return a value so that 1, 1.0 and true differ."""
    if value == {}:
        return b""
    text = orjson.dumps(value)
    # It has one word for nothing, infinity and what is no number.
    return repr(value) if b"null" in text else text
