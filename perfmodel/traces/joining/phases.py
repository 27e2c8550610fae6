"""Which part of a step a call belongs to, and which forward call a backward call answers.

Autograd runs what it does backward inside a frame of its own, and gives it the sequence number of
the forward call that asked for it. Optimizers wrap their steps in a frame with their name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from perfmodel.traces.trace import PHASES, UNKNOWN, Operators
from perfmodel.types import Phase

_BACKWARD = re.compile(
    r"^autograd::engine::evaluate_function: |^\w+Backward\d*$|^CompiledFunctionBackward"
)
_OPTIMIZER = re.compile(r"^Optimizer\.(?:step|zero_grad)#")


def phase_markers(names: Sequence[str]) -> npt.NDArray[np.int8]:
    """Return the phase that a frame of each name begins, -1 for those that begin none."""
    marks = np.full(len(names), UNKNOWN, dtype=np.int8)
    for position, name in enumerate(names):
        if _BACKWARD.search(name):
            marks[position] = PHASES.index(Phase.BACKWARD)
        elif _OPTIMIZER.search(name):
            marks[position] = PHASES.index(Phase.OPTIMIZER)
    return marks


def forward_calls(operators: Operators) -> npt.NDArray[np.int32]:
    """Return for each backward call the forward call with its sequence number, or -1.

    Several nested forward calls carry one number: the innermost, which autograd recorded last, is
    the one. A call inside a backward frame without a number of its own takes that of the frame.

    Returns
    -------
    ndarray of int32, shape (calls,)
        Rows of the same table; -1 for calls of other phases.
    """
    forward, backward = PHASES.index(Phase.FORWARD), PHASES.index(Phase.BACKWARD)
    known = np.flatnonzero((operators.phase == forward) & (operators.sequence >= 0))
    # Of equal numbers the one that started last stands last.
    known = known[np.lexsort((operators.start_ns[known], operators.sequence[known]))]
    numbers = operators.sequence[known]
    found = np.full(len(operators), UNKNOWN, dtype=np.int32)
    rows = np.flatnonzero(operators.phase == backward)
    if not len(known) or not len(rows):
        return found
    wanted = _inherited(operators)[rows]
    place = np.searchsorted(numbers, wanted, side="right") - 1
    fits = (place >= 0) & (numbers[np.maximum(place, 0)] == wanted) & (wanted >= 0)
    found[rows] = np.where(fits, known[np.maximum(place, 0)], UNKNOWN)
    return found


def _inherited(operators: Operators) -> npt.NDArray[np.int64]:
    """Return the sequence number of each call, or that of the nearest call around it."""
    sequence = operators.sequence.copy()
    # Numbers wander one level inwards a round; traces are a few tens deep.
    for _ in range(64):
        lacking = np.flatnonzero((sequence < 0) & (operators.parent >= 0))
        given = sequence[operators.parent[lacking]]
        if not (given >= 0).any():
            break
        sequence[lacking] = given
    return sequence
