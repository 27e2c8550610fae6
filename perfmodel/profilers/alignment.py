"""Align two sequences of operator calls: what ran, and what the graph says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """An operator call as far as alignment looks at it.

    Parameters
    ----------
    op : str
        As in :attr:`Node.op`.
    shapes : tuple of tuple of int
        Shapes of the tensor arguments.
    """

    op: str
    shapes: tuple[tuple[int, ...], ...]


def align(ran: Sequence[Call], expected: Sequence[Call]) -> list[tuple[int, int]]:
    """Pair the calls that ran with the expected ones, both in order.

    Calls with equal operator and equal shape of the first argument are paired first; in the gaps
    that remain, calls with equal operator. A call that only one side has stays alone. Pairs never
    cross.

    Parameters
    ----------
    ran, expected : sequence of Call

    Returns
    -------
    list of (int, int)
        Positions in ``ran`` and ``expected``, both strictly increasing.

    Examples
    --------
    >>> a, b = Call(op="mm", shapes=((2, 3),)), Call(op="relu", shapes=((2, 4),))
    >>> extra = Call(op="detach", shapes=((2, 4),))
    >>> align([a, extra, b, b], [a, b, b])
    [(0, 0), (2, 1), (3, 2)]
    """
    pairs = _pair([_exact(c) for c in ran], [_exact(c) for c in expected])
    for (i0, i1), (j0, j1) in _gaps(pairs, len(ran), len(expected)):
        loose = _pair([_loose(c) for c in ran[i0:i1]], [_loose(c) for c in expected[j0:j1]])
        pairs += [(i0 + i, j0 + j) for i, j in loose]
    return sorted(pairs)


def canonical_op(op: str) -> str:
    """Return the name under which variants of one operator are compared.

    In-place and plain forms are one, and so are the implementations of attention.

    Examples
    --------
    >>> canonical_op("relu_"), canonical_op("_scaled_dot_product_flash_attention_for_cpu")
    ('relu', 'scaled_dot_product_attention')
    """
    if op.startswith("_scaled_dot_product"):
        return "scaled_dot_product_attention" + ("_backward" if op.endswith("_backward") else "")
    if op in {"_unsafe_view", "view_copy"}:
        return "view"
    return op.rstrip("_") or op


def _exact(call: Call) -> tuple[Any, ...]:
    shaped = [shape for shape in call.shapes if shape]
    return (canonical_op(call.op), shaped[0] if shaped else ())


def _loose(call: Call) -> tuple[Any, ...]:
    return (canonical_op(call.op),)


def _pair(
    left: Sequence[tuple[Any, ...]], right: Sequence[tuple[Any, ...]]
) -> list[tuple[int, int]]:
    head = _common_prefix(left, right)
    tail = _common_prefix(left[head:][::-1], right[head:][::-1])
    pairs = [(i, i) for i in range(head)]
    pairs += [(len(left) - 1 - i, len(right) - 1 - i) for i in range(tail)]
    middle_left, middle_right = left[head : len(left) - tail], right[head : len(right) - tail]
    if middle_left and middle_right:
        matcher = SequenceMatcher(None, middle_left, middle_right, autojunk=False)
        for block in matcher.get_matching_blocks():
            pairs += [(head + block.a + k, head + block.b + k) for k in range(block.size)]
    return sorted(pairs)


def _common_prefix(left: Sequence[Any], right: Sequence[Any]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _gaps(
    pairs: Sequence[tuple[int, int]], left_count: int, right_count: int
) -> Iterable[tuple[tuple[int, int], tuple[int, int]]]:
    i0, j0 = 0, 0
    for i, j in [*pairs, (left_count, right_count)]:
        if i > i0 and j > j0:
            yield (i0, i), (j0, j)
        i0, j0 = i + 1, j + 1
