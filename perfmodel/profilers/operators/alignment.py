"""Align two sequences of operator calls: what ran, and what the graph says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

#: Names under which the dispatcher runs what a graph calls by another name.
_VARIANTS: Mapping[str, str] = MappingProxyType(
    {
        "_unsafe_view": "view",
        "_reshape_alias": "view",
        "view_copy": "view",
        "_index_put_impl": "index_put",
        **{
            f"{library}_batch_norm{phase}": f"native_batch_norm{phase}"
            for library in ("cudnn", "miopen")
            for phase in ("", "_backward")
        },
    }
)

#: Canonical names of operators that a device without a kernel for them runs in parts.
_FUSED = ("scaled_dot_product_attention", "recurrent")

_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "mkldnn_rnn_layer")

_Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """An operator call as far as alignment looks at it."""

    op: str
    shapes: tuple[tuple[int, ...], ...]

    @property
    def loose(self) -> str:
        """What two calls must share to be paired at all: the operator."""
        return canonical_op(self.op)

    @property
    def exact(self) -> tuple[Any, ...]:
        """What makes a pair certain: operator and shape of the first argument.

        Scalars are left out: the profiler shows them like arguments that are no tensors.
        """
        return (self.loose, next((shape for shape in self.shapes if shape), ()))


def align(ran: Sequence[Call], expected: Sequence[Call]) -> list[tuple[int, int]]:
    r"""Pair the calls that ran with the expected ones, both in order.

    The pairs are those of the highest total score, where a pair of equal operator and equal
    first shape scores 2, one of equal operator alone 1:
    :math:`S_{ij} = \\max(S_{i-1,j}, S_{i,j-1}, S_{i-1,j-1} + s_{ij})`. Calls that only one side
    has stay alone; pairs never cross.

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
    known = {call.loose for call in expected}
    kept = [i for i, call in enumerate(ran) if call.loose in known]
    pairs = _pairs([ran[i] for i in kept], expected)
    return [(kept[i], j) for i, j in pairs]


def absorb_parts(
    pairs: Sequence[tuple[int, int]], ran: Sequence[Call], expected: Sequence[Call]
) -> list[tuple[int, int]]:
    """Pair the parts of a fused operator that ran in parts with the one node it is in the graph.

    Attention with dropout has no kernel of its own on a CPU: matrix products, softmax and
    dropout run in its place; so it is with the backward pass of a recurrent layer. All calls
    that stayed alone between the neighbours of a lone node of this kind are taken for its parts.
    """
    further: list[tuple[int, int]] = []
    for (i0, i1), (j0, j1) in _gaps(pairs, len(ran), len(expected)):
        lone = [j for j in range(j0, j1) if expected[j].loose.startswith(_FUSED)]
        if len(lone) == 1:
            further += [(i, lone[0]) for i in range(i0, i1)]
    taken = {i for i, _ in (*pairs, *further)}
    for i, call in enumerate(ran):
        if i not in taken and call.loose.startswith(_FUSED):
            # Further layers of a recurrent stack that is one node.
            same = [(abs(i - k), j) for k, j in pairs if expected[j].loose == call.loose]
            further += [(i, min(same)[1])] if same else []
    return further


def canonical_op(op: str) -> str:
    """Return the name under which variants of one operator are compared.

    In-place and plain forms are one, and so are the implementations of attention and of batch norm.

    Examples
    --------
    >>> canonical_op("relu_"), canonical_op("_scaled_dot_product_flash_attention_for_cpu")
    ('relu', 'scaled_dot_product_attention')
    >>> canonical_op("cudnn_batch_norm_backward")
    'native_batch_norm_backward'
    """
    if op.startswith(("_scaled_dot_product", "scaled_dot_product")):
        return "scaled_dot_product_attention" + ("_backward" if op.endswith("_backward") else "")
    if op.startswith(_RECURRENT):
        return "recurrent" + ("_backward" if op.endswith("_backward") else "")
    plain = op.rstrip("_") or op
    return _VARIANTS.get(plain, plain)


def _pairs(ran: Sequence[Call], expected: Sequence[Call]) -> list[tuple[int, int]]:
    (a_exact, b_exact), (a_loose, b_loose) = (
        _numbered([getattr(c, key) for c in ran], [getattr(c, key) for c in expected])
        for key in ("exact", "loose")
    )
    head = _common(a_exact, b_exact)
    tail = _common(a_exact[head:][::-1], b_exact[head:][::-1])
    a_end, b_end = len(ran) - tail, len(expected) - tail
    middle = _best_pairs(
        (a_exact[head:a_end], a_loose[head:a_end]), (b_exact[head:b_end], b_loose[head:b_end])
    )
    return [
        *((i, i) for i in range(head)),
        *((head + i, head + j) for i, j in middle),
        *((a_end + i, b_end + i) for i in range(tail)),
    ]


def _numbered(left: Sequence[Any], right: Sequence[Any]) -> tuple[_Ids, _Ids]:
    numbers: dict[Any, int] = {}
    ids = [numbers.setdefault(key, len(numbers)) for key in (*left, *right)]
    both = np.array(ids, dtype=np.int32)
    return both[: len(left)], both[len(left) :]


def _common(left: _Ids, right: _Ids) -> int:
    count = min(len(left), len(right))
    different = np.flatnonzero(left[:count] != right[:count])
    return int(different[0]) if len(different) else count


def _best_pairs(left: tuple[_Ids, _Ids], right: tuple[_Ids, _Ids]) -> list[tuple[int, int]]:
    rows, columns = len(left[0]), len(right[0])
    if not rows or not columns:
        return []
    narrow = 2 * min(rows, columns) < np.iinfo(np.int16).max
    best = np.zeros((rows + 1, columns + 1), dtype=np.int16 if narrow else np.int32)
    for i in range(rows):
        gained = best[i, :-1] + _scores(left, right, i)
        # The running maximum along the row is the term S[i, j - 1].
        np.maximum.accumulate(np.maximum(best[i, 1:], gained), out=best[i + 1, 1:])
    return _traced(best, left, right)


def _scores(left: tuple[_Ids, _Ids], right: tuple[_Ids, _Ids], i: int) -> npt.NDArray[np.int16]:
    loose: npt.NDArray[np.int16] = (right[1] == left[1][i]).astype(np.int16)
    loose += right[0] == left[0][i]
    return loose


def _traced(
    best: npt.NDArray[Any], left: tuple[_Ids, _Ids], right: tuple[_Ids, _Ids]
) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    i, j = best.shape[0] - 1, best.shape[1] - 1
    while i and j:
        score = int(left[1][i - 1] == right[1][j - 1]) + int(left[0][i - 1] == right[0][j - 1])
        if score and best[i, j] == best[i - 1, j - 1] + score:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif best[i, j] == best[i - 1, j]:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def _gaps(
    pairs: Sequence[tuple[int, int]], ran_count: int, expected_count: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    i0, j0 = 0, 0
    for i, j in [*pairs, (ran_count, expected_count)]:
        if i > i0 and j > j0:
            yield (i0, i), (j0, j)
        i0, j0 = i + 1, j + 1
