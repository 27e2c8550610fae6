"""Keep the questions that were asked last; whoever asks does not wait for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import orjson

from perfmodel.lru import LruCache
from perfmodel.placement.topology.parse import format_placement
from perfmodel.placement.topology.topology import Placement
from perfmodel.store.shadow.asked_questions import AskedQuestion, AskedQuestionStore
from perfmodel.store.sql.polling import PollingThread

#: Bodies that wait to be kept, and the largest of them, bytes: a process asked more often keeps
#: those that came last.
_MOST_WAITING = 64
_MOST_BYTES = 256 * 1024
#: Cells of one body that are kept, and the longest of them, characters.
_MOST_CELLS = 8
_LONGEST = 16 * 1024
#: Cells that are kept at a time, and how often, seconds.
_AT_ONCE = 128
_EVERY_S = 2.0
#: Cells that this process kept lately, which are not written again at once.
_REMEMBERED = 512
#: Irrational, so that cells are spread over jobs and placements alike.
_STRIDE = 0.618_033_988_749_895


@final
class AskedQuestions(PollingThread):
    """Takes bodies of questions that were answered, and keeps some of their cells.

    A cell is one job on one placement. Who asked, with which key, what was observed and how long
    the caller would wait is not kept.

    Parameters
    ----------
    is_kept : bool
        False: nothing is.
    """

    def __init__(self, store: AskedQuestionStore, *, is_kept: bool = True) -> None:
        super().__init__("asked", every_s=_EVERY_S, complaint="what is asked cannot be kept")
        self._store = store
        self._is_kept = is_kept
        self._bodies: deque[bytes] = deque(maxlen=_MOST_WAITING)
        self._lately: LruCache[str, bool] = LruCache(_REMEMBERED)

    def note(self, body: bytes) -> None:
        """Take the body of a question that was answered; for any thread."""
        if len(body) <= _MOST_BYTES:
            self._bodies.append(body)

    def note_row(self, job: Any, placements: Sequence[Placement]) -> None:
        """Take one job on some placements that was answered; for any thread.

        Parameters
        ----------
        job : object
            As it was written: JSON, or a reference.
        """
        written = [format_placement(placement) for placement in placements]
        self.note(orjson.dumps({"job": job, "placements": written}))

    def start(self) -> None:
        """Begin to keep what is noted."""
        if self._is_kept:
            super().start()

    def poll(self) -> int:
        """Keep what was noted until now; return how many cells were written.

        Raises
        ------
        StoreError
            The database cannot be written; what was noted is lost.
        """
        new = [one for one in self._noted() if self._lately.get(one.key) is None]
        chosen = list({one.key: one for one in new}.values())[-_AT_ONCE:]
        self._store.put(chosen)
        for one in chosen:
            self._lately.put(one.key, True)
        return len(chosen)

    def _noted(self) -> Iterator[AskedQuestion]:
        while self._bodies:
            for cell in cells_of(orjson.loads(self._bodies.popleft())):
                content = orjson.dumps(cell, option=orjson.OPT_SORT_KEYS).decode()
                if len(content) <= _LONGEST:
                    yield AskedQuestion(content=content)


def cells_of(question: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return cells that a question asked about, few of a large table.

    Parameters
    ----------
    question : mapping
        The body of a prediction, an explanation, a matrix, a curve or a ranking.

    Examples
    --------
    >>> cells_of({"job": "a", "placement": "T4", "observations": []})
    [{'job': 'a', 'placement': 'T4'}]
    >>> len(cells_of({"jobs": ["a", "b"], "placements": ["T4"] * 100}))
    8
    """
    if "placement" in question:
        return [{"job": question["job"], "placement": question["placement"]}]
    jobs = question["jobs"] if "jobs" in question else [question["job"]]
    placements = question["placements"] if "placements" in question else _of_curve(question)
    return [
        {"job": jobs[cell // len(placements)], "placement": placements[cell % len(placements)]}
        for cell in _spread(len(jobs) * len(placements))
    ]


def _spread(count: int) -> list[int]:
    if count <= _MOST_CELLS:
        return list(range(count))
    found = (int(at * _STRIDE % 1.0 * count) for at in range(_MOST_CELLS))
    return list(dict.fromkeys(found))


def _of_curve(question: Mapping[str, Any]) -> list[Any]:
    """Return the placements of a curve on one host, which need no network."""
    per_host = question.get("accelerators_per_host") or 8
    stated = question.get("counts") or [1, 2, 4, 8]
    node = {"accelerator": question["accelerator"], "link": question.get("link")}
    plan = {"zero_stage": question.get("zero_stage") or 0}
    most = min(per_host, question.get("most") or per_host)
    return [{"nodes": [{**node, "count": n}], "plan": plan} for n in stated if n <= most]
