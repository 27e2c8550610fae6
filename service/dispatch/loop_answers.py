"""How busy the loop is with answers that take no thread."""

from __future__ import annotations

from collections import deque
from time import monotonic

#: So many answers in so many seconds take some percent of a core, and on a busy machine a good part
#: of what the process gets of one.
_MANY, _LATELY_S = 64, 0.2


class LoopAnswers:
    """Notes what the loop answers by itself, for those who work while nobody waits.

    Such answers never stand in a queue that could be looked at, and yet they wait: for the
    interpreter, whenever another thread of the process computes.

    Examples
    --------
    >>> answers = LoopAnswers()
    >>> for _ in range(64):
    ...     answers.note()
    >>> answers.count
    64
    """

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=_MANY)

    def note(self) -> None:
        """Note that one was given now."""
        self._at.append(monotonic())

    @property
    def count(self) -> int:
        """What was answered lately where that is much, else 0; as of those that wait elsewhere."""
        many = len(self._at) == _MANY and monotonic() - self._at[0] < _LATELY_S
        return _MANY if many else 0
