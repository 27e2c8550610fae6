"""Where processes that measure together wait for each other."""

from __future__ import annotations

from multiprocessing.context import BaseContext


class Meeting:
    """Points of time that all members of a measurement share.

    A member that ends never arrives: whoever started the members sees that and ends the others,
    so that nobody has to count how long it waits.
    """

    def __init__(self, context: BaseContext, members: int) -> None:
        self.members = members
        self._barrier = context.Barrier(members)
        self._finished = context.Value("i", 0)

    def wait(self) -> None:
        """Return when every member has called this equally often."""
        self._barrier.wait()

    def finish(self) -> None:
        """Say that this member has seen enough; it may go on for the sake of the others."""
        with self._finished.get_lock():
            self._finished.value += 1

    def all_finished(self) -> bool:
        """Tell whether every member has seen enough."""
        return bool(self._finished.value >= self.members)
